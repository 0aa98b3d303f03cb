"""Tables of the calls of a log: what is new in each key, what JAX did, and its seconds."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from jaxlens.ir.compile_log import CallEvent, CompileLog, CompileStepKind
from jaxlens.ir.graph import Span
from jaxlens.report import Cell, Table, barred, cells, duration

_ROWS = 200
_OPERATIONS = 12  # rows of those that ran outside of jit, which few users asked for
DONE: Mapping[CompileStepKind, str] = {"trace": "traced", "lower": "lowered", "compile": "compiled"}
"""Participles of the kinds of steps."""


def tables(log: CompileLog) -> Iterator[Table]:
    """Yields tables of the calls of functions, their seconds, and operations outside of jit."""
    calls = [call for call in log.calls if call.role == "user"]
    shown = calls[:_ROWS]
    note = f"{len(calls) - _ROWS:,} more: .log.calls has all" if len(calls) > _ROWS else ""
    if shown:
        rows = tuple(
            cells(str(c.number), _named(c), place(c.line), c.reason, _did(c)) for c in shown
        )
        columns = ("#", "function", "called at", "what is new in the key", "what JAX did")
        yield Table("Calls that were not served from JAX's caches", columns, rows, note)
        yield _seconds(shown)
    if log.operations:
        yield _operations(log.operations)


def _named(call: CallEvent) -> str:
    return f"{call.name} [{call.thread}]" if call.thread else call.name


def _did(call: CallEvent) -> str:
    """Returns the steps of a call: `traced, lowered, loaded from disk`."""
    if not call.steps:
        return "fast path: an entry, nothing compiled"
    phrases = []
    for step in call.steps:
        if step.served == "memory":
            continue
        word = "loaded from disk" if step.served == "disk" else DONE[step.kind]
        phrases.append(f"{word}, failed" if step.failed else word)
    return ", ".join(phrases)


def _seconds(calls: Sequence[CallEvent]) -> Table:
    """Returns a volatile table of the seconds of each step."""
    rows = []
    for call in calls:
        if call.steps:
            total = Cell(duration(call.seconds), call.seconds)
            rows.append((Cell(str(call.number)), Cell(_named(call)), *step_cells(call), total))
    shown = list(barred(rows, (2, 3, 4, 5)))
    if len(rows) > 1:
        sums = [
            sum(s.seconds or 0.0 for call in calls for s in call.steps if s.kind == kind)
            for kind in DONE
        ]
        totals = [Cell(duration(total), total) for total in (*sums, sum(sums))]
        shown.append((Cell(""), Cell("in all"), *totals))
    columns = ("#", "function", "trace", "lower", "compile", "total")
    return Table(
        "Time of each step",
        columns,
        tuple(shown),
        "wall-clock, as JAX reports it",
        volatile=True,
        right=(2, 3, 4, 5),
    )


def step_cells(call: CallEvent) -> tuple[Cell, ...]:
    """Returns the seconds of tracing, lowering and compiling; "" for a step that was not done."""
    seconds = [step.seconds if (step := call.step(kind)) else None for kind in DONE]
    return tuple(Cell("" if s is None else duration(s), s) for s in seconds)


def _operations(calls: Sequence[CallEvent]) -> Table:
    programs = Counter((call.function, place(call.line)) for call in calls)
    rows = barred([cells(*key, n) for key, n in programs.most_common(_OPERATIONS)], (2,))
    more = len(programs) - len(rows)
    note = f"{more:,} more, with no more programs each: .log.calls has all" if more else ""
    columns = ("operation", "called at", "programs")
    return Table("Operations compiled on their own", columns, rows, note, right=(2,))


def place(line: Span | None) -> str:
    """Returns `cell 2:3`, or "" without a line."""
    return f"{line.file}:{line.line}" if line else ""


def at(line: Span | None) -> str:
    """Returns ` at cell 2:3`, or "" without a line."""
    return f" at {place(line)}" if line else ""
