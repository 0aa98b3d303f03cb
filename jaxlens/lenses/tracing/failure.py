"""Reports a failed trace: the line, the tracer, what to write instead, and what ran before."""

from collections.abc import Iterator

from jaxlens.ir.failure import Failure, Ran, Remedy, advice, operands, origin, where, why
from jaxlens.report import Cell, Finding, Report, Table, count


def failure(found: Failure) -> Report:
    """Reports where and why tracing failed, what to write instead, and the lines that ran."""
    remedies = tuple(map(remedy, found.remedies))
    title = f"Why tracing {found.name} failed"
    line = Finding(where(found), "traced")
    return Report(title, (line, *findings(found), *remedies), tuple(tables(found)))


def findings(failure: Failure) -> Iterator[Finding]:
    """Yields why the line failed, and where the tracer came from."""
    came = origin(failure.value) if failure.value else ""
    for sentence in filter(None, (f"{why(failure)} {came}".strip(), operands(failure))):
        yield Finding(sentence, "traced")


def remedy(found: Remedy) -> Finding:
    """Returns what to write instead, in one sentence."""
    words = f"{advice(found)}: {found.code}" if found.code else f"{advice(found)}."
    return Finding(words, "traced" if found.outcome else "estimate")


def tables(failure: Failure) -> Iterator[Table]:
    """Yields the table of the lines that ran, the failing one last."""
    if not failure.steps:
        return
    left = f"{count(failure.skipped, 'line')} ran before these. " if failure.skipped else ""
    yield Table(
        "Until the failing line",
        ("line", "code", "bound", "recorded"),
        tuple(map(_row, failure.steps)),
        f"{left}A tracer stands for a value that is known when the program runs.",
    )


def _row(step: Ran) -> tuple[Cell, ...]:
    raised = (f"raises {step.raised}",) if step.raised else ()
    recorded = "; ".join((*step.recorded, *raised))
    code = "  " * min(step.depth, 8) + step.code
    return Cell(step.place), Cell(code), Cell("; ".join(step.bound)), Cell(recorded)
