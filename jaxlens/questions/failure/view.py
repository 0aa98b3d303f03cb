"""The view of `jaxlens.explain`: the failing line, its values, remedies, prior equations."""

from collections.abc import Iterator
from dataclasses import replace

from jaxlens.ir.failure import Failure, advice, again, operands, origin, where, why
from jaxlens.render.document import Block, Code, Document, Findings, Fold, TableBlock
from jaxlens.report import Finding, Table, Trust, amount, cells, count

_TUNING = (
    "It failed while XLA compiled it: autotuning runs candidates for each kernel on the GPU, on "
    "arrays of their own (XLA_FLAGS=--xla_gpu_autotune_level=0 turns it off)."
)

_USUAL = "16 GB"  # where a backend does not say how much memory it has


def document(failure: Failure) -> Document:
    """Returns the document of a tracing failure."""
    traced = f" while tracing {failure.name}" if failure.name else ""
    line = f", at {where(failure)}" if failure.place else ""
    # Where no cause is known the message stands for it: the exception may not be in sight.
    is_known = failure.mistake != "other" or failure.reason
    said = failure.error if is_known else f"{failure.error}: {failure.message}"
    first = f"{said}{traced}{line}"
    return Document("explain", first, tuple(_blocks(failure)))


def no_memory(
    size: int | None,
    memory: Document | None = None,
    name: str = "",
    is_compiling: bool = False,
    is_tuning: bool = False,
    room: tuple[int, int] | None = None,
    own: int = 0,
) -> Document:
    """Returns the document of a program that ran out of memory.

    Args:
        size: The bytes that XLA could not get; None where it does not say.
        memory: What the program takes; None where it is not known which, or does not compile.
        name: The call of the program, where it does not compile; "" where it is not known.
        is_compiling: Whether it failed to compile.
        is_tuning: Whether XLA ran out of memory in autotuning; `memory` is then without it.
        room: Bytes that JAX takes of the device at most, and those in use there; None if unknown.
        own: Bytes of the program's own arguments, which are in use too.
    """
    wanted = f"XLA could not get {amount(size)}" if size else "XLA ran out of memory"
    if memory is None:
        finding = _not_shown(name, is_compiling, is_tuning)
        return Document("memory", wanted, (Findings((finding,)),))
    findings, *rest = memory.blocks
    tuning = Finding(f"{_TUNING} The memory is that of the program without autotuning.", "xla")
    said = (Findings((tuning,)),) if is_tuning else ()
    shown = (findings, *said, Fold("All of its memory", tuple(rest)), *_to_do(room, own))
    return replace(memory, taken=f"{wanted} for {memory.taken}", blocks=shown)


def _to_do(room: tuple[int, int] | None, own: int) -> Iterator[Block]:
    """Yields what is left of the device, and the command that tries to fit the program in."""
    left = _USUAL
    if room is not None:
        most, others = room[0], max(room[1] - own, 0)
        left = f"{max(most - others, 0) // 10**7 / 100} GB"
        text = f"JAX takes {amount(most)} of this device at most; {amount(others)} of that are "
        text += "other arrays now (%arrays names what keeps them)."
        # The program's own arguments may be gone by now.
        yield Findings((Finding(text, "estimate"),))
    title = "To try what would make it take less (nothing runs)"
    yield Code("text", f'%explain --fits "{left}"', title=title)


def _not_shown(name: str, is_compiling: bool, is_tuning: bool) -> Finding:
    if name:
        cause = _TUNING if is_tuning else "It failed while XLA compiled it." if is_compiling else ""
        return Finding(f"The program is {name}. {cause}".strip(), "xla")
    return Finding(
        "Which program ran out of memory is not known here. Put %%compile --memory above a cell "
        "that ends in its call, which compiles it and does not run it.",
        "unknown",
    )


def _blocks(failure: Failure) -> Iterator[Block]:
    came = origin(failure.value) if failure.value else ""
    texts = (why(failure), came, operands(failure))
    trust: Trust = "jax" if failure.reason else "traced"
    found = [Finding(" ".join(filter(None, texts)), trust)]
    found += [Finding(again(failure), "traced")] if failure.again else []
    yield Findings(tuple(found))
    for remedy in failure.remedies:
        if remedy.code:
            yield Code("text", remedy.code, title=advice(remedy))
        else:
            yield Findings((Finding(f"{advice(remedy)}.", "estimate"),))
    if failure.steps:
        yield TableBlock(_steps(failure))


def _steps(failure: Failure) -> Table:
    """Returns the table of the lines that ran, the failing one last."""
    rows = []
    for step in failure.steps:
        raised = (f"raises {step.raised}",) if step.raised else ()
        code = "  " * min(step.depth, 8) + step.code
        recorded = "; ".join((*step.recorded, *raised))
        rows.append(cells(step.place, code, "; ".join(step.bound), recorded))
    left = f"{count(failure.skipped, 'line')} ran before these. " if failure.skipped else ""
    return Table(
        "Until the failing line",
        ("line", "code", "bound", "recorded"),
        tuple(rows),
        f"{left}A tracer stands for a value that is known when the program runs.",
    )
