"""Donation: inputs whose buffer a result reuses, inputs that could be donated, and failures.

JAX matches a donated input with a result of the same shape and dtype. The aliases of the optimised
module (`input_output_alias`) say which inputs and results share a buffer.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.ir.facts import Input
from jaxlens.ir.graph import Module
from jaxlens.lenses.program.instructions import numbers
from jaxlens.lenses.sentences import listed
from jaxlens.report import Cell, Finding, Table, amount, count

_ALIAS = re.compile(r"\{\s*+(\d*+)[\d, ]*+\}: \((\d++), \{[\d, ]*+\}")


@dataclass(frozen=True, slots=True)
class Donation:
    """One input that is donated, or could be.

    Attributes:
        name: The input's pytree path.
        type: Its type, as text.
        bytes: Its size; None where a dimension is symbolic.
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
    inputs, outputs = capture.program.inputs, capture.outputs
    module = capture.optimized.module
    shared = _aliases(module, inputs, len(outputs))
    donated = [leaf for leaf in inputs if leaf.donated]
    candidates = [_donated(leaf, shared, inputs, outputs, module) for leaf in donated]
    free = [n for n in range(len(outputs)) if n not in shared.values()]
    for leaf in inputs:
        result = next((n for n in free if _fits(leaf, outputs[n])), None)
        if not leaf.donated and result is not None:
            free.remove(result)
            kind = str(leaf.type)
            candidates.append(
                Donation(leaf.name, kind, leaf.type.bytes, False, outputs[result].name)
            )
    return tuple(candidates)


def _fits(leaf: Input, result: Input) -> bool:
    return (leaf.type.dtype, leaf.type.shape) == (result.type.dtype, result.type.shape)


def _aliases(module: Module, inputs: Sequence[Input], results: int) -> dict[str, int]:
    """Returns the index of the result that reuses the buffer of each input, by input name."""
    number = {n: name for name, n in numbers(module, inputs).items()}
    text = module.attrs.get("input_output_alias", "")
    pairs = [(int(out or 0), int(parameter)) for out, parameter in _ALIAS.findall(text)]
    return {number[p]: out for out, p in pairs if p in number and out < results}


def _donated(
    leaf: Input,
    shared: dict[str, int],
    inputs: Sequence[Input],
    outputs: Sequence[Input],
    module: Module,
) -> Donation:
    kind, size = str(leaf.type), leaf.type.bytes
    if leaf.name in shared:
        return Donation(leaf.name, kind, size, True, outputs[shared[leaf.name]].name)
    return Donation(leaf.name, kind, size, True, "", _why(leaf, inputs, outputs, module))


def _why(leaf: Input, inputs: Sequence[Input], outputs: Sequence[Input], module: Module) -> str:
    """Returns why no result reuses the buffer of a donated input."""
    alike = [result for result in outputs if _fits(leaf, result)]
    rivals = sum(1 for other in inputs if other.donated and _fits(leaf, other))
    if not alike:
        near = [r for r in outputs if r.type.shape == leaf.type.shape]
        also = f"; {near[0].name} has its shape, but is {near[0].type.dtype}" if near else ""
        return f"no result is {leaf.type}{also}"
    if leaf.name not in numbers(module, inputs):
        return "the program does not read it"
    if rivals > len(alike):
        return (
            f"{count(len(alike), 'result')} of type {leaf.type} for "
            f"{count(rivals, 'donated input')} of it"
        )
    return "a result of its type exists, but XLA did not use it (layout, sharding or backend)"


def sentences(found: Sequence[Donation]) -> list[Finding]:
    """Returns the findings on donated inputs and on inputs that could be donated."""
    done = [donation for donation in found if donation.donated and donation.result]
    lost = [donation for donation in found if donation.donated and not donation.result]
    could = [donation for donation in found if not donation.donated]
    said = []
    if done:
        size = amount(sum(donation.bytes or 0 for donation in done))
        verb = "has" if len(done) == 1 else "have"
        said.append(
            Finding(
                f"{count(len(done), 'donated input')} ({size}) {verb} a result in place.", "xla"
            )
        )
    if lost:
        reasons = Counter(donation.why for donation in lost)
        why = "; ".join(f"{next(o.name for o in lost if o.why == w)}: {w}" for w in reasons)
        said.append(
            Finding(
                f"Donated in vain, {amount(sum(o.bytes or 0 for o in lost))}: {why}.", "counted"
            )
        )
    if could:
        roots = list(dict.fromkeys(re.split(r"[\[.]", donation.name)[0] for donation in could))
        size = amount(sum(donation.bytes or 0 for donation in could))
        names = ", ".join(f"{root!r}" for root in roots) + ("," if len(roots) == 1 else "")
        fits = "has the type of an input" if len(could) == 1 else "have the types of inputs"
        said.append(
            Finding(
                f"Donation could save at most {size}: {count(len(could), 'result')} {fits} not "
                f"donated ({listed(roots)}); donate_argnames=({names}) in jax.jit, if the caller "
                "needs them no more.",
                "estimate",
            )
        )
    return said


def table(found: Sequence[Donation], most: int = 12) -> Table:
    """Returns a table with a row per input, largest first."""
    found = sorted(found, key=lambda donation: -(donation.bytes or 0))
    top = max((donation.bytes or 0 for donation in found), default=0) or 1
    rows = tuple(
        (
            Cell(donation.name),
            Cell(donation.type),
            Cell(amount(donation.bytes), donation.bytes, bar=(donation.bytes or 0) / top),
            Cell("yes" if donation.donated else "no"),
            Cell(_became(donation)),
        )
        for donation in found[:most]
    )
    left = f"{len(found) - most:,} more: .donations has all." if len(found) > most else ""
    columns = ("input", "type", "bytes", "donated", "its memory")
    return Table("Donation", columns, rows, left, right=(2,))


def _became(donation: Donation) -> str:
    if donation.why:
        return f"is not used again: {donation.why}"
    return f"holds {donation.result}" if donation.donated else f"could hold {donation.result}"
