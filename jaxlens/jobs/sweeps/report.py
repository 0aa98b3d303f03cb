"""Says how memory grows along a sweep, which points fit, and which failed; and their table."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from jaxlens.jobs.sweeps.points import FIGURES, SweepFacts, SweepRow
from jaxlens.program.published_limits import target_of
from jaxlens.program.sentences import listed, unknown_trips
from jaxlens.render.document import Document, TableBlock
from jaxlens.report import Finding, NumberColumn, Report, Table, amount, count, duration, table
from jaxlens.views.report_blocks import report_blocks

_CLOCK = (
    "XLA's time, once, writing its dumps too; programs that are compiled side by side take longer."
)
_WRITERS: Mapping[str, Callable[[float], str] | None] = {
    **dict.fromkeys(FIGURES, amount),
    "compile": duration,
    "flops": partial(amount, unit="flop"),
    "kernels": None,
}
_NOTES = {
    "peak": "Peak and reserved are bytes of one device, by XLA's buffer assignment.",
    "bytes": "Bytes are those that kernels read and write if no cache helps.",
    "flops": "Flops are those of the traced program, of all devices: XLA may remove some.",
    "kernels": "Kernels do not include library calls.",
}
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
        lines: dict[tuple[int, ...], list[SweepRow]] = {}
        for row in facts.rows:
            if row.takes:
                lines.setdefault(row.place[:at] + row.place[at + 1 :], []).append(row)
        if line := next((rows for rows in lines.values() if len(rows) > 1), None):
            line.sort(key=lambda row: axis.numbers[row.place[at]])
            low, high = (axis.numbers[line[n].place[at]] for n in (0, -1))
            before, after = (float(line[n].takes or 0) for n in (0, -1))
            larger = f" ({high / low:.3g} times)" if low > 0 else ""
            fixed = _point(line[0], without=axis.name)
            yield Finding(
                f"From {axis.quantity} = {low:,.12g} to {high:,.12g}{larger}, "
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
    figures = {n: [getattr(row.figures, n) for row in facts.rows] for n in FIGURES}
    names = [name for name, column in figures.items() if any(n is not None for n in column)]
    more: dict[str, Callable[[SweepRow], str]] = {}
    if facts.capacity is not None:
        more["fits"] = lambda row: _FITS[row.fits]
    if facts.failed:
        # Its kind, before the first colon: the whole has a table with room for it.
        more["error"] = lambda row: row.error.partition(":")[0]
    plain = [name for name in names if name != "compile"]
    ended = [row for row in facts.rows if not row.error] if "compile" in names else []
    seconds = _table("Seconds", facts, ended, ["compile"], {}, _CLOCK)
    return (
        _table("Points of the sweep", facts, facts.rows, plain, more, _note(facts, plain)),
        _table("Points that failed", facts, facts.failed, (), {"error": lambda row: row.error}),
        replace(seconds, volatile=True),
    )


def _table(
    title: str,
    facts: SweepFacts,
    rows: Sequence[SweepRow],
    names: Sequence[str],
    more: Mapping[str, Callable[[SweepRow], str]],
    note: str = "",
) -> Table:
    axes = [axis.name for axis in facts.axes]
    columns = [NumberColumn(name, _WRITERS[name], bar=name, none="") for name in names]
    shown = (
        (
            *row.point.values(),
            *(getattr(row.figures, name) for name in names),
            *(words(row) for words in more.values()),
        )
        for row in rows
    )
    return table(title, [*axes, *columns, *more], shown, note)


def _note(facts: SweepFacts, names: Sequence[str]) -> str:
    notes = [note for name, note in _NOTES.items() if name in names]
    if facts.open:
        notes.append(f"Some flops are unknown: {unknown_trips(facts.open)}.")
    if kept := sum(row.kept for row in facts.rows):
        notes.append(f"{count(kept, 'point')} measured before, from the file.")
    if here := sorted({row.here for row in facts.rows if row.here}):
        notes.append(f"Compiled in this process: {listed(here)}.")
    return " ".join(notes)


def _point(row: SweepRow, without: str = "") -> str:
    return ", ".join(f"{name}={value}" for name, value in row.point.items() if name != without)
