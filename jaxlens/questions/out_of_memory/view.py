"""The view of a program that ran out of memory: what it takes, and what to try."""

from collections.abc import Iterator
from dataclasses import replace

from jaxlens.render.document import Block, Code, Document, Findings, Fold
from jaxlens.report import Finding, amount

_TUNING = (
    "It failed while XLA compiled it: autotuning runs candidates for each kernel on the GPU, on "
    "arrays of their own (XLA_FLAGS=--xla_gpu_autotune_level=0 turns it off)."
)

_USUAL = "16 GB"  # where a backend does not say how much memory it has


def no_memory(
    size: int | None, memory: Document, is_tuning: bool, room: tuple[int, int] | None, own: int
) -> Document:
    """Returns the document of a program that ran out of memory.

    Args:
        size: The bytes that XLA could not get; None where it does not say.
        memory: What the program takes.
        is_tuning: Whether XLA ran out of memory in autotuning; `memory` is then without it.
        room: Bytes that JAX takes of the device at most, and those in use there; None if unknown.
        own: Bytes of the program's own arguments, which are in use too.
    """
    findings, *rest = memory.blocks
    tuning = Finding(f"{_TUNING} The memory is that of the program without autotuning.", "xla")
    said = (Findings((tuning,)),) if is_tuning else ()
    shown = (findings, *said, Fold("All of its memory", tuple(rest)), *_to_do(room, own))
    return replace(memory, taken=f"{_wanted(size)} for {memory.taken}", blocks=shown)


def not_shown(size: int | None, name: str, is_compiling: bool, is_tuning: bool) -> Document:
    """Returns the document where the program is not known, or does not compile.

    Args:
        size: The bytes that XLA could not get; None where it does not say.
        name: The call of the program; "" where it is not known.
        is_compiling: Whether it failed to compile.
        is_tuning: Whether XLA ran out of memory in autotuning.
    """
    finding = Finding(
        "Which program ran out of memory is not known here. Put %%compile --memory above a cell "
        "that ends in its call, which compiles it and does not run it.",
        "unknown",
    )
    if name:
        cause = _TUNING if is_tuning else "It failed while XLA compiled it." if is_compiling else ""
        finding = Finding(f"The program is {name}. {cause}".strip(), "xla")
    return Document("memory", _wanted(size), (Findings((finding,)),))


def _wanted(size: int | None) -> str:
    return f"XLA could not get {amount(size)}" if size else "XLA ran out of memory"


def _to_do(room: tuple[int, int] | None, own: int) -> Iterator[Block]:
    """Yields what is left of the device, and the command that tries to fit the program in."""
    left = _USUAL
    if room is not None:
        most, others = room[0], max(room[1] - own, 0)
        left = amount(max(most - others, 1))
        text = f"JAX takes {amount(most)} of this device at most; {amount(others)} of that are "
        text += "other arrays now (%arrays names what keeps them)."
        # The program's own arguments may be gone by now.
        yield Findings((Finding(text, "estimate"),))
    title = "To try what would make it take less (nothing runs)"
    yield Code("text", f'%explain --fits "{left}"', title=title)
