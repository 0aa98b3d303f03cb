"""Says which points of a sweep fit, and which failed."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import attrgetter

from jaxlens.jobs.sweeps.facts import (
    Measured,
    Series,
    SweepFacts,
    figure,
    fit,
    series,
)
from jaxlens.jobs.sweeps.points import FIGURES, SweepRow
from jaxlens.program.published_limits import target_of
from jaxlens.program.sentences import listed, unknown_trips
from jaxlens.report import Cell, Finding, Report, Table, Trust, amount, barred, count, duration

UNITS = {"flops": "flop", "kernels": "", "compile": "s", "run": "s"}  # the others are bytes
TIMED = ("compile", "run")
_GROUPS = 6  # values of the other axes that have a sentence each
_FITS = {True: "yes", False: "no", None: "unknown"}


def report(facts: SweepFacts) -> Report:
    """Reports a sweep: limits and errors, and all points as a table."""
    findings = [
        Finding(
            f"{name} is traced, so that its value is in no program: to vary it, make it static, as "
            f'in jax.jit(f, static_argnames="{name}").',
            "traced",
        )
        for name in facts.traced
    ]
    findings += [*_limits(facts), *_errors(facts)]
    if facts.trouble:
        text = f"Points are not kept in the file: {facts.trouble}."
        findings.append(Finding(text, "measured"))
    return Report("Sweep", tuple(findings), tuple(t for t in tables(facts) if t.rows))


def _limits(facts: SweepFacts) -> Iterator[Finding]:
    """Yields which points fit the limit, along the axis of numbers that changes most."""
    capacity = facts.capacity
    if capacity is None:
        return
    known = [row for row in facts.rows if row.fits is not None]
    if not known:
        yield Finding("What fits is not known: no point has a known memory.", "unknown")
        return
    trust: Trust = "estimate" if facts.elsewhere else "xla"
    tried = "that were tried" if len(known) == len(facts.rows) else "with a known memory"
    alike = _limited(facts, capacity.words, tried)
    for text, ones in alike.items():
        yield Finding(_capital(f"{_with(ones) if len(alike) > 1 else ''}{text}"), trust)
    if not alike:
        inside = [row for row in known if row.fits]
        text = f"{count(len(inside), 'point')} of {len(known)} {tried} fit {capacity.words}"
        most = max(inside, key=lambda row: row.takes or 0, default=None)
        more = f"; the largest is {_point(most)} with {amount(most.takes)}" if most else ""
        yield Finding(f"{text}{more}.", trust)
    if facts.elsewhere:
        yield Finding(
            f"Compiled for {listed(facts.elsewhere)}: XLA would make other programs for "
            f"{capacity.name}, which may take more or less; sweep with over={{..., "
            f'"target": ["{target_of(capacity.name)}"]}}.',
            "estimate",
        )
    if capacity.source:
        yield Finding(
            f"{_capital(capacity.words)}: {capacity.source}. A program is "
            "counted with all that it reserves from start to end; what else is on the device is "
            "not.",
            "estimate",
        )


def _limited(facts: SweepFacts, words: str, tried: str) -> dict[str, list[Series]]:
    """Returns sentences and whom they are of; {} where the points are to be counted instead."""
    along = max(facts.numbered, key=partial(_spread, facts), default=None)
    alike: dict[str, list[Series]] = {}
    for one in () if along is None else series(facts, along):
        where = fit(one)
        if along is None or where is None:
            return {}
        text = _fit(*where, facts.axes[along].quantity, words, tried)
        alike.setdefault(text, []).append(one)
    return alike if len(alike) <= _GROUPS else {}


def _spread(facts: SweepFacts, at: int) -> tuple[bool, float]:
    """Returns whether the limit is met along an axis, and how many times memory grows there."""
    lines = list(series(facts, at))
    values = [takes for one in lines if (takes := one.values(attrgetter("takes"))[1])]
    meets = any(len({row.fits for row in one.rows}) > 1 for one in lines)
    return meets, max((max(takes) / max(min(takes), 1) for takes in values), default=0.0)


def _fit(low: Measured | None, high: Measured | None, quantity: str, words: str, tried: str) -> str:
    if high is not None:
        above = f"{quantity} = {_number(high[0])} {_takes(high[1])}"
    if low is None:
        return f"none {tried.replace('were', 'was')} fits {words}: {above}."
    if high is None:
        largest = f"{quantity} = {_number(low[0])}, {_takes(low[1])}"
        return f"all {tried} fit {words}: the largest, {largest}."
    return (
        f"{quantity} = {_number(low[0])} is the largest {tried.removeprefix('that were ')} that "
        f"fits {words} "
        f"({amount(low[1].takes)}); {above}."
    )


def _takes(row: SweepRow) -> str:
    return f"takes {amount(row.takes)}" if row.takes is not None else "is refused by XLA"


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
    value = figure(name)(row)
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
    return any(figure(name)(row) is not None for row in facts.rows)


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


def _with(ones: Sequence[Series]) -> str:
    """Returns the values of the other axes as the beginning of a sentence; "" for none."""
    texts = [", ".join(f"{name}={label}" for name, label in one.others) for one in ones]
    return f"with {listed(texts, _GROUPS)} " if any(texts) else ""


def _point(row: SweepRow, names: Sequence[str] = ()) -> str:
    shown = names or row.point
    return ", ".join(f"{name}={row.point[name]}" for name in shown)


def _capital(text: str) -> str:
    """Returns a sentence that may begin with an argument's name, which stays as it is."""
    is_word = text.startswith(("with ", "none ", "all ", "at ", "the "))
    return f"{text[0].upper()}{text[1:]}" if is_word else text


def _number(n: float) -> str:
    return f"{n:,.0f}" if n == int(n) else f"{n:g}"
