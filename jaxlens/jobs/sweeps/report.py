"""Says how memory grows along a sweep, which points fit, and which failed; and their table."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from jaxlens.jobs.sweeps.points import FIGURES, SweepFacts, SweepRow
from jaxlens.program.published_limits import target_of
from jaxlens.program.sentences import listed, unknown_trips
from jaxlens.render.document import Document, TableBlock
from jaxlens.report import Cell, Finding, Report, Table, amount, barred, count, duration
from jaxlens.views.report_blocks import report_blocks

UNITS = {"flops": "flop", "kernels": "", "compile": "s", "run": "s"}  # the others are bytes
TIMED = ("compile", "run")
_FITS = {True: "yes", False: "no", None: "unknown"}


def document(facts: SweepFacts, asked: bool = False) -> Document:
    """Returns the document of a sweep.

    Args:
        facts: The points.
        asked: Whether the user named the figures: the text then has the times too.
    """
    over = " x ".join(f"{len(axis.labels)} of {axis.name}" for axis in facts.axes)
    title = f"sweep of {facts.name}: {count(len(facts.rows), 'point')} ({over})"
    blocks = (
        replace(block, asked=asked) if isinstance(block, TableBlock) else block
        for block in report_blocks(report(facts))
    )
    return Document("sweep", title, tuple(blocks))


def report(facts: SweepFacts) -> Report:
    """Reports a sweep: growth, limits and errors, and all points as a table."""
    findings = [
        Finding(
            f"{name} is traced, so that its value is in no program: to vary it, make it static, as "
            f'in jax.jit(f, static_argnames="{name}").',
            "traced",
        )
        for name in facts.traced
    ]
    findings += [*_limits(facts), *_growth(facts), *_errors(facts)]
    if facts.trouble:
        text = f"Points are not kept in the file: {facts.trouble}."
        findings.append(Finding(text, "measured"))
    return Report("Sweep", tuple(findings), tuple(t for t in tables(facts) if t.rows))


def _growth(facts: SweepFacts) -> Iterator[Finding]:
    """Yields how many times memory grows along each axis of numbers, at the first other values."""
    for at in facts.numbered:
        axis = facts.axes[at]

        def others(row: SweepRow, at: int = at) -> tuple[int, ...]:
            return row.place[:at] + row.place[at + 1 :]

        known = sorted((row for row in facts.rows if row.takes), key=others)
        lines = [
            sorted(rows, key=lambda r: axis.numbers[r.place[at]])
            for _, rows in groupby(known, others)
        ]
        if line := next((rows for rows in lines if len(rows) > 1), None):
            low, high = (axis.numbers[line[n].place[at]] for n in (0, -1))
            before, after = (float(line[n].takes or 0) for n in (0, -1))
            larger = f" ({high / low:.3g} times)" if low > 0 else ""
            fixed = _point(line[0], [name for name in line[0].point if name != axis.name])
            yield Finding(
                f"From {axis.quantity} = {_number(low)} to {_number(high)}{larger}, "
                f"memory needed goes from {amount(before)} to {amount(after)} "
                f"({after / before:.3g} times)"
                f"{f', with {fixed}' if fixed else ''}.",
                "xla",
            )


def _limits(facts: SweepFacts) -> Iterator[Finding]:
    """Yields how many points fit the limit: the largest that does, the smallest that does not."""
    capacity = facts.capacity
    if capacity is None:
        return
    known = [row for row in facts.rows if row.fits is not None]
    if not known:
        yield Finding("What fits is not known: no point has a known memory.", "unknown")
        return
    inside = [row for row in known if row.fits]
    outside = [row for row in known if not row.fits and row.takes]
    of = f"{count(len(known), 'point')} with a known memory"
    text = f"{len(inside)} of {of} fit {capacity.words}"
    if inside:
        most = max(inside, key=lambda row: row.takes or 0)
        text += f": the largest is {_point(most)} with {amount(most.takes)}"
    if outside:
        least = min(outside, key=lambda row: row.takes or 0)
        text += f"; the smallest that does not is {_point(least)} with {amount(least.takes)}"
    yield Finding(f"{text}.", "estimate" if facts.elsewhere else "xla")
    if facts.elsewhere:
        yield Finding(
            f"Compiled for {listed(facts.elsewhere)}: XLA would make other programs for "
            f"{capacity.name}, which may take more or less; sweep with over={{..., "
            f'"target": ["{target_of(capacity.name)}"]}}.',
            "estimate",
        )
    if capacity.source:
        yield Finding(
            f"{capacity.words[0].upper()}{capacity.words[1:]}: {capacity.source}. A program is "
            "counted with all that it reserves from start to end; what else is on the device is "
            "not.",
            "estimate",
        )


def _errors(facts: SweepFacts) -> Iterator[Finding]:
    failed = facts.failed
    if not failed:
        return
    first = f"{_point(failed[0])}: {failed[0].error}".removesuffix(".")
    more = f"; and {len(failed) - 1} more" if len(failed) > 1 else ""
    points = count(len(failed), "point")
    yield Finding(f"{points} of {len(facts.rows)} failed: {first}{more}.", "measured")


def tables(facts: SweepFacts) -> tuple[Table, ...]:
    """Returns the table of all points, of errors and of times."""
    plain = [name for name in FIGURES if name not in TIMED and _has(facts, name)]
    timed = [name for name in TIMED if _has(facts, name)]
    made = [_table(facts, "Points of the sweep", plain, _note(facts))]
    if facts.failed:
        rows = tuple((*map(Cell, row.point.values()), Cell(row.error)) for row in facts.failed)
        made.append(Table("Points that failed", (*facts.failed[0].point, "error"), rows))
    if timed:
        made.append(_table(facts, "Seconds", timed, _clock(facts), volatile=True))
    return tuple(made)


def _table(
    facts: SweepFacts, title: str, names: Sequence[str], note: str, volatile: bool = False
) -> Table:
    columns: list[tuple[str, Callable[[SweepRow], Cell]]]
    columns = [(axis.name, partial(_label, axis.name)) for axis in facts.axes]
    numbers = range(len(columns), len(columns) + len(names))
    columns += [(name, partial(_figure, name)) for name in names]
    if facts.capacity is not None and not volatile:
        columns.append(("fits", lambda row: Cell(_FITS[row.fits])))
    if facts.failed and not volatile:
        # Its kind, before the first colon: the whole has a table with room for it.
        columns.append(("error", lambda row: Cell(row.error.partition(":")[0], row.error)))
    shown = (row for row in facts.rows if not (volatile and row.error))
    rows = barred(
        (tuple(make(row) for _, make in columns) for row in shown), *((n,) for n in numbers)
    )
    headings = tuple(name for name, _ in columns)
    return Table(title, headings, rows, note, volatile, tuple(numbers))


def _label(axis: str, row: SweepRow) -> Cell:
    return Cell(row.point[axis])


def _figure(name: str, row: SweepRow) -> Cell:
    value = getattr(row.figures, name)
    return Cell(_text(name, value), value)


def _text(name: str, value: float | None) -> str:
    if value is None:
        return ""
    if name in TIMED:
        return duration(value)
    if name == "kernels":
        return f"{value:,}"
    return amount(value, UNITS.get(name, "B"))


def _has(facts: SweepFacts, name: str) -> bool:
    return any(getattr(row.figures, name) is not None for row in facts.rows)


def _note(facts: SweepFacts) -> str:
    notes = []
    if _has(facts, "peak"):
        notes.append("Peak and reserved are bytes of one device, by XLA's buffer assignment.")
    if _has(facts, "bytes"):
        notes.append("Bytes are those that kernels read and write if no cache helps.")
    if _has(facts, "flops"):
        notes.append("Flops are those of the traced program, of all devices: XLA may remove some.")
    if facts.open:
        notes.append(f"Some flops are unknown: {unknown_trips(facts.open)}.")
    if _has(facts, "kernels"):
        notes.append("Kernels do not include library calls.")
    if kept := sum(row.kept for row in facts.rows):
        notes.append(f"{count(kept, 'point')} measured before, from the file.")
    if here := sorted({row.here for row in facts.rows if row.here}):
        notes.append(f"Compiled in this process: {listed(here)}.")
    return " ".join(notes)


def _clock(facts: SweepFacts) -> str:
    """Says how the times were measured."""
    parts = []
    if _has(facts, "compile"):
        parts.append("compile: XLA's time, once, writing its dumps too")
    if _has(facts, "run"):
        inputs = "random inputs (integers 0)" if facts.random else "the call's inputs"
        parts.append(f"run: median of {count(facts.runs, 'run')} on {inputs}")
    several = facts.workers is None or facts.workers > 1
    if several:
        parts.append("programs were compiled side by side, which lengthens each")
    return f"{'; '.join(parts)}."


def _point(row: SweepRow, names: Sequence[str] | None = None) -> str:
    return ", ".join(
        f"{name}={row.point[name]}" for name in (row.point if names is None else names)
    )


def _number(n: float) -> str:
    return f"{n:,.0f}" if n == int(n) else f"{n:g}"
