"""The sentences and tables about a call; seconds are in a lead and in tables that may change."""

from collections.abc import Iterator

from jaxlens.questions.dispatch.call_cost import DEVICE, PYTHON, CallCost, CallPart
from jaxlens.report import (
    Finding,
    NumberColumn,
    Report,
    count,
    duration,
    percent,
    table,
)

_MANY = 100  # leaves from which fewer are advised
_MORE = 2.0  # times a call of one leaf from which a call is worth a word
_LESS = 0.5  # share of the time before the device works below which another way is named
_ROWS = 12
_SECONDS = NumberColumn("time", duration, "time")


def report(cost: CallCost) -> Report:
    """Reports which of Python and the device is the limit, and what would halve Python's part."""
    whole = cost.before + cost.device
    parts = [*cost.parts, CallPart("the device works", cost.device)]
    note = (
        "The least of calls in turns. The device's is what the call takes longer than a program "
        "with the same arguments and as many results that computes nothing."
    )
    share = NumberColumn("share", percent, "share", none="")
    rows = ((part.name, part.seconds, part.seconds / whole if whole else None) for part in parts)
    arguments = ((one.name, one.leaves, one.seconds) for one in cost.arguments)
    flatten = NumberColumn("to flatten it", duration)
    ways = cost.tried if cost.limit != DEVICE else ()
    tried = ((way.name, way.seconds, way.code) for way in ways)
    tables = (
        table("A call", ("", _SECONDS, share), rows, note, volatile=True),
        table(
            "Arguments", ("argument", NumberColumn("leaves"), flatten), arguments,
            most=_ROWS, rest=": .arguments has all", volatile=True,
        ),
        table(
            "Other ways, before the device works", ("way", _SECONDS, "in Python"), tried,
            volatile=True,
        ),
    )  # fmt: skip
    return Report("Dispatch", tuple(_findings(cost)), tuple(t for t in tables if t.rows))


def of_run(cost: CallCost) -> tuple[Finding, ...]:
    """Says of a run where Python is the limit of its call, and what takes half of that.

    Nothing where a call takes about as long as any, of which there is nothing to save.
    """
    if cost.unjitted or cost.limit != PYTHON or cost.before < _MORE * cost.least:
        return ()
    if (best := _half(cost)) is not None:
        cure = f"{best.name} takes {duration(best.seconds)} ({best.code})"
    elif _is_for_leaves(cost):
        cure = f"most is for {cost.leaves + cost.results:,} leaves: stack alike layers (not tried)"
    else:
        cure = "nothing that was tried takes half of it (--dispatch)"
    text = (
        f"Python is the limit of {cost.name}: {duration(cost.before)} of a call before the device "
        f"works, {_on_device(cost)}; {cure}."
    )
    return (Finding(text, "measured"),)


def _on_device(cost: CallCost) -> str:
    return f"{duration(cost.device) if cost.device else 'too little to measure'} on it"


def _findings(cost: CallCost) -> Iterator[Finding]:
    lead = f"{duration(cost.before)} before the device works, {_on_device(cost)}. "
    most = max(cost.parts, key=lambda part: part.seconds)
    limits = {
        PYTHON: f"Python is the limit of {cost.name}, most of all {most.name}.",
        DEVICE: f"The device is the limit of {cost.name}, not Python.",
    }
    text = limits.get(cost.limit, f"Python and the device take about as long in {cost.name}.")
    yield Finding(text, "measured", lead=lead)
    if cost.unjitted:
        yield Finding(
            f"{cost.name} is not jitted: as written each operation is a dispatch of its own, under "
            "jit all are one, which was measured (%%timeline counts the dispatches).",
            "traced",
        )
    yield _path(cost)
    if cost.arguments:
        first = cost.arguments[0]
        largest = f", {first.leaves:,} of them of {first.name}" * (len(cost.arguments) > 1)
        leaves, results = count(cost.leaves, "leaf", "leaves"), count(cost.results, "result")
        yield Finding(f"It flattens {leaves}{largest}, and makes {results}.")
    if cost.limit != DEVICE:
        yield from _cures(cost)


def _path(cost: CallCost) -> Finding:
    calls = count(cost.python_calls, "function")
    if not cost.python_calls:
        return Finding("The call stays in jit's C++: it runs no function of Python.", "measured")
    if not cost.is_fast:
        text = f"The call leaves jit's C++ each time: {calls} of Python run in it."
    elif cost.jit == "jax.jit":
        text = f"The call stays in jit's C++, which calls {calls} of Python for pytrees of a class."
    else:
        text = f"{calls} of Python run in each call: {cost.jit} takes the arguments apart first."
    return Finding(text, "measured")


def _cures(cost: CallCost) -> Iterator[Finding]:
    if (best := _half(cost)) is not None:
        tail = f": {duration(best.seconds)} in place of {duration(cost.before)} ({best.code})."
        text = f"Less than half before the device works: {best.name}."
        yield Finding(text, "measured", tail=tail)
    if _is_for_leaves(cost):
        yield Finding(
            "More than half is for leaves: alike layers stacked into one array, as `lax.scan` "
            "takes them, would be fewer (not tried).",
            "estimate",
            lead=f"Each leaf in or out costs {duration(cost.each)}. ",
        )


def _half(cost: CallCost) -> CallPart | None:
    """Returns the first other way, that of the least work, which takes less than half."""
    return next((way for way in cost.tried if way.seconds < _LESS * cost.before), None)


def _is_for_leaves(cost: CallCost) -> bool:
    leaves = cost.leaves + cost.results
    return leaves >= _MANY and cost.each * leaves > _LESS * cost.before
