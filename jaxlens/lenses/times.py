"""How long each step took here."""

from jaxlens.captures import Capture
from jaxlens.lenses.report import Cell, Finding, Report, Table


def times(capture: Capture) -> Report:
    """Wall-clock seconds of the steps done so far; the table is no part of the stable text."""
    steps = capture.times
    longest = max((step.seconds for step in steps), default=0.0) or 1.0
    total = sum(step.seconds for step in steps)
    row = [Cell(duration(step.seconds), step.seconds, bar=step.seconds / longest) for step in steps]
    notes = [f"{step.step}: {step.note}" for step in steps if step.note]
    table = Table(
        "Time per stage",
        (*(step.step for step in steps), "in all"),
        ((*row, Cell(duration(total), total)),),
        f"{'; '.join(('Wall clock on this machine, measured once', *notes))}.",
        volatile=True,
        right=tuple(range(len(steps) + 1)),
    )
    if not steps:
        return Report("Times", (Finding("Nothing was timed.", "unknown"),))
    return Report("Times", (), (table,))


def duration(seconds: float) -> str:
    """`12.3 ms`, `1.25 s`, `840 µs`: three significant digits."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return "0 s" if seconds <= 0 else f"{seconds / 1e-9:.3g} ns"
