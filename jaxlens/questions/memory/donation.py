"""Donation: inputs whose buffer a result reuses, inputs that could be donated, and failures.

JAX matches a donated input with a result of the same type, and leaves the others of as many
elements to XLA (`jax.buffer_donor`), which reuses a buffer for a result of as many bytes. The
aliases of the optimised module (`input_output_alias`) say which inputs and results share a buffer.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from jaxlens.captures import Capture
from jaxlens.ir.facts import Input
from jaxlens.ir.hlo.instructions import inputs_of, numbers, parameters
from jaxlens.program.donated import OF_ALL, aliases, option
from jaxlens.program.sentences import listed
from jaxlens.program.subject import devices
from jaxlens.report import Finding, NumberColumn, Table, amount, count, explains, saves, table

_ROWS = 12
_MUCH = 1_000_000  # bytes from which a device is likely to miss them


@dataclass(frozen=True, slots=True)
class Donation:
    """One input that is donated, or could be.

    Attributes:
        name: The input's pytree path.
        type: Its type, as text.
        bytes: Its size on one device; None where that is unknown.
        donated: Whether the call donates it.
        result: The result that reuses, or could reuse, its buffer; "" for none.
        why: Why no result reuses it; "" where one does.
    """

    name: str
    type: str
    bytes: int | None
    donated: bool
    result: str
    why: str = ""


def donations(capture: Capture) -> tuple[Donation, ...]:
    """Returns the donated inputs, then those whose buffer a result without an alias could reuse.

    Raises:
        UnavailableError: The backend provides no optimised HLO.
    """
    program, outputs = capture.program, capture.outputs
    module = capture.optimized.module
    number = numbers(module, program.inputs)
    # The index of the result that reuses the buffer of each input, by parameter number.
    reused = {p: n for p, n in aliases(module).items() if n < len(outputs)}
    shared = {name: reused[n] for name, n in number.items() if n in reused}
    found = []
    for leaf in program.inputs:
        if leaf.donated:
            result = outputs[shared[leaf.name]].name if leaf.name in shared else ""
            why = "" if result else _why(leaf, program.inputs, outputs, leaf.name in number)
            found.append(_donation(leaf, result, why))
    free = [result for n, result in enumerate(outputs) if n not in shared.values()]
    found += _possible(program.inputs, free if program.jit else [])  # else no jit has an option
    if devices(capture) == 1:
        return tuple(found)
    # How an input is divided among devices is in the compiled program alone.
    leaves = inputs_of(module, program.inputs)
    parts = {leaves[n.id].name: n.type.bytes for n in parameters(module) if n.id in leaves}
    return tuple(replace(one, bytes=parts.get(one.name)) for one in found)


def donatable(capture: Capture) -> tuple[Donation, ...]:
    """Returns the inputs that could be donated, of a program that XLA does not compile."""
    inputs, outputs = capture.program.inputs, list(capture.outputs)
    for leaf in inputs:
        places = (n for n, result in enumerate(outputs) if leaf.donated and _is_like(leaf, result))
        if (n := next(places, None)) is not None:
            del outputs[n]
    return tuple(_possible(inputs, outputs))


def _possible(inputs: Sequence[Input], free: list[Input]) -> Iterator[Donation]:
    """Yields the inputs that are not donated whose buffer one of the free results could reuse."""
    left = [leaf for leaf in inputs if not leaf.donated]
    for could_hold in (_is_like, _is_as_large):
        for leaf in tuple(left):
            n = next((n for n, result in enumerate(free) if could_hold(leaf, result)), None)
            if n is not None:
                left.remove(leaf)
                yield _donation(leaf, free.pop(n).name)


def _donation(leaf: Input, result: str, why: str = "") -> Donation:
    return Donation(leaf.name, str(leaf.type), leaf.type.bytes, leaf.donated, result, why)


def _is_as_large(leaf: Input, result: Input) -> bool:
    """Whether a result has as many elements and bytes as an input."""
    sized = leaf.type.bytes is not None and leaf.type.bytes == result.type.bytes
    return sized and math.prod(leaf.type.shape) == math.prod(result.type.shape)


def _is_like(leaf: Input, result: Input) -> bool:
    return (leaf.type.dtype, leaf.type.shape) == (result.type.dtype, result.type.shape)


def _why(leaf: Input, inputs: Sequence[Input], outputs: Sequence[Input], is_read: bool) -> str:
    """Returns why no result reuses the buffer of a donated input."""
    alike = [result for result in outputs if _is_as_large(leaf, result)]
    rivals = sum(1 for other in inputs if other.donated and _is_as_large(leaf, other))
    if not alike:
        near = [r for r in outputs if r.type.shape == leaf.type.shape]
        also = f"; {near[0].name} has its shape, but is {near[0].type.dtype}" if near else ""
        return f"no result has the size of {leaf.type}{also}"
    if not is_read:
        return "the program does not read it"
    if rivals > len(alike):
        return (
            f"{count(len(alike), 'result')} of the size of {leaf.type} for "
            f"{count(rivals, 'donated input')} of it"
        )
    return "a result of its size exists, but XLA did not use it (layout, sharding or backend)"


def roots_of(donations: Sequence[Donation]) -> list[str]:
    """Returns the arguments that inputs are of: `state` of `state['w']`."""
    return list(dict.fromkeys(re.split(r"[\[.]", donation.name)[0] for donation in donations))


def sentences(
    donations: Sequence[Donation], whole: int | None = None, jit: str = "jax.jit"
) -> Iterator[Finding]:
    """Yields the findings on donated inputs and on inputs that could be donated.

    Args:
        donations: Donations, done or possible.
        whole: Bytes that the program takes, by which the findings are weighed.
        jit: What jits the function, as `Program.jit` names it.
    """
    reused = [donation for donation in donations if donation.donated and donation.result]
    if reused:
        verb = "has" if len(reused) == 1 else "have"
        inputs = count(len(reused), "donated input")
        yield Finding(f"{inputs} ({amount(_bytes(reused))}) {verb} a result in place.", "xla")
    unused = [donation for donation in donations if donation.donated and not donation.result]
    if unused:
        first: dict[str, str] = {}
        for donation in unused:
            first.setdefault(donation.why, donation.name)
        reasons = "; ".join(f"{name}: {why}" for why, name in first.items())
        text = f"Donated in vain, {amount(_bytes(unused))}: {reasons}."
        yield Finding(text, "counted", weight=_weight(unused, whole))
    possible = [donation for donation in donations if not donation.donated]
    if possible:
        roots = roots_of(possible)
        how = f"{option(roots, jit)} in {jit}{' (of every array)' * (jit == OF_ALL)}"
        results = count(len(possible), "result")
        like = "has the size of an input" if len(possible) == 1 else "have the sizes of inputs"
        yield Finding(
            f"Donation could save at most {amount(_bytes(possible))}: {results} {like} not donated "
            f"({listed(roots)}); {how}, if the caller needs them no more.",
            "estimate",
            weight=_weight(possible, whole),
        )


def _bytes(donations: Sequence[Donation]) -> int:
    return sum(donation.bytes or 0 for donation in donations)


def _weight(donations: Sequence[Donation], whole: int | None) -> float:
    """Returns the weight of donating; for a small program it is low, as the bytes do not matter."""
    size = _bytes(donations)
    return (saves if size >= _MUCH else explains)(size, whole)


def donation_table(donations: Sequence[Donation]) -> Table:
    """Returns a table with a row per input, largest first."""

    def memory(one: Donation) -> str:
        if one.why:
            return f"is not used again: {one.why}"
        return f"{'holds' if one.donated else 'could hold'} {one.result}"

    rows = (
        (one.name, one.type, one.bytes, "yes" if one.donated else "no", memory(one))
        for one in sorted(donations, key=lambda one: -(one.bytes or 0))
    )
    columns = ("input", "type", NumberColumn("bytes", amount, "bytes"), "donated", "its memory")
    return table("Donation", columns, rows, most=_ROWS, rest=": .donations has all")
