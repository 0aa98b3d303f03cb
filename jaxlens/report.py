"""The report of a lens: findings in sentences, tables, and overlays keyed by node id."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

_AMOUNT = re.compile(r"(\d[\d_]*(?:\.\d*)?(?:e[+-]?\d+)?)\s*([kmgtp]?)(i?)(?:b|flops?|)", re.I)
_CAUSE = 0.2  # share of what is explained, from which a part is named as its cause
_PREFIXES = ("", *"kMGTPE")
Trust = Literal["measured", "counted", "xla", "estimate", "unknown", "traced", "compared", "jax"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence, with how its facts are known and the nodes that it refers to.

    Attributes:
        text: The sentence.
        trust: How the facts are known: measured here; counted from the program; XLA's own
            figure; an estimate; unknown; seen while JAX traced; by comparing keys or programs; or
            said by JAX in its message.
        ids: Ids of the nodes that it refers to.
        lead: Words before the text with measured figures; the stable text leaves them out.
        weight: How much it matters for this program, 0..1, from `saves` or `explains`; findings
            of several lenses are ranked by it.
        tail: Words in the place of the last full stop, with measured figures; the stable text
            leaves them out.
    """

    text: str
    trust: Trust = "counted"
    ids: tuple[str, ...] = ()
    lead: str = ""
    weight: float = 0.0
    tail: str = ""

    @property
    def measured(self) -> str:
        """The sentence with its measured figures."""
        text = f"{self.text.removesuffix('.')}{self.tail}" if self.tail else self.text
        return self.lead + text


def saves(part: float | None, whole: float | None) -> float:
    """Returns the weight of a finding whose advice would save a part of a whole.

    Args:
        part: What it would save: bytes of the peak, equations to compile, compiles.
        whole: What the program takes of it; 0 or None if that is unknown, which weighs nothing.
    """
    return min(max((part or 0) / whole, 0.0), 1.0) if whole else 0.0


def is_cause(part: float, whole: float) -> bool:
    """Whether a part is enough of a whole, a fifth, to be named as its cause."""
    return 0 < part >= _CAUSE * whole


def explains(part: float | None, whole: float | None) -> float:
    """Returns the weight of a finding that explains a part of a whole: advice goes first."""
    return saves(part, whole) / 4


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Returns the findings, each sentence once, those of most weight first."""
    found: dict[str, Finding] = {}
    for finding in sorted(findings, key=lambda finding: -finding.weight):
        found.setdefault(finding.measured, finding)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class CellLink:
    """Words of a cell that open another notebook, or a page.

    Attributes:
        text: The words, as the cell has them.
        address: Where they lead, relative to the notebook or page with the output.
        label: What a screen reader says instead, and the tooltip; it holds the words. "": the
            words themselves.
    """

    text: str
    address: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """A table's cell: its text, and its value for sorting and JSON."""

    text: str
    value: float | int | str | None = None
    ids: tuple[str, ...] = ()
    bar: float | None = None  # share of the column's largest, 0..1, drawn as a bar in HTML
    links: tuple[CellLink, ...] = ()  # in the order of their words in the text


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings; a heading names its unit.

    Attributes:
        title: What the table is about.
        columns: Headings.
        rows: One cell per heading.
        note: How the numbers are known, or what was left out; "" for nothing.
        volatile: Whether it has times or other figures that change from run to run; the stable
            text form leaves such a table out and says so.
        right: Indices of columns aligned right (numbers).
        stage: The stage of the cells' node ids, which a viewer links; "" for none.
        volatile_columns: Indices of columns with such figures, of a table whose others do not
            change: the stable text form leaves these out and says so.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    volatile: bool = False
    right: tuple[int, ...] = ()
    stage: str = ""
    volatile_columns: tuple[int, ...] = ()

    def stable(self) -> "Table":
        """Returns the table without the columns that change from run to run."""
        if not self.volatile_columns:
            return self
        kept = [i for i in range(len(self.columns)) if i not in self.volatile_columns]
        return replace(
            self,
            columns=tuple(self.columns[i] for i in kept),
            rows=tuple(tuple(row[i] for i in kept) for row in self.rows),
            right=tuple(n for n, i in enumerate(kept) if i in self.right),
            note=f"{self.note} .text(times=True) writes its times too.".lstrip(),
            volatile_columns=(),
        )


@dataclass(frozen=True, slots=True)
class Overlay:
    """A number per node, e.g. flops, to tint a listing or the user's lines with.

    Attributes:
        title: What the number is, with its unit.
        stage: The stage whose node ids are the keys.
        values: Number per node id.
    """

    title: str
    stage: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Report:
    """The answer to one question."""

    title: str
    findings: tuple[Finding, ...] = ()
    tables: tuple[Table, ...] = ()
    overlays: tuple[Overlay, ...] = ()


def cells(*texts: object) -> tuple[Cell, ...]:
    """Returns a row of plain cells; numbers keep their value."""
    return tuple(
        Cell(f"{t:,}" if isinstance(t, int) else str(t), t if isinstance(t, int | float) else None)
        for t in texts
    )


def barred(
    rows: Iterable[tuple[Cell, ...]], *scales: Sequence[int]
) -> tuple[tuple[Cell, ...], ...]:
    """Returns rows with bars behind the numbers of some columns.

    Args:
        rows: The rows of a table.
        scales: Indices of columns; those of one scale are compared with its largest number.
    """
    whole = tuple(rows)
    for scale in scales:
        numbers = [number(row[i]) or 0 for row in whole for i in scale]
        top = max(numbers, default=0) or 1
        whole = tuple(
            tuple(
                replace(cell, bar=value / top)
                if i in scale and (value := number(cell)) is not None
                else cell
                for i, cell in enumerate(row)
            )
            for row in whole
        )
    return whole


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """A column of numbers, for `table`.

    Attributes:
        heading: Its heading.
        write: Returns a number as text, such as `amount`; None writes a count.
        bar: The scale of the bars behind the numbers, which columns of one name share; "" for none.
        none: What stands where a number is missing.
        rare: Whether the column is left out where all its numbers are missing.
    """

    heading: str
    write: Callable[[float], str] | None = None
    bar: str = ""
    none: str = "unknown"
    rare: bool = False

    def cell(self, value: object) -> Cell:
        """Returns the cell of a number."""
        if isinstance(value, Cell):
            return value
        if isinstance(value, int | float):
            return Cell(self.write(value) if self.write else f"{value:,}", value)
        return Cell(self.none if value is None else str(value))


def table(
    title: str,
    columns: Sequence[str | NumberColumn],
    rows: Iterable[Sequence[object]],
    note: str = "",
    *,
    most: int | None = None,
    rest: str = " below these",
    volatile: bool = False,
    stage: str = "",
) -> Table:
    """Returns a table of rows of values; a value is a number, text or a `Cell`.

    Args:
        title: What the table is about.
        columns: The headings, those of numbers as a `NumberColumn`.
        rows: A value per column.
        note: See `Table`, as for `volatile` and `stage`.
        most: How many rows are shown; None for all.
        rest: What the note says of the rows that are not shown: "12 more below these."
        volatile: See `Table`.
        stage: See `Table`.
    """
    unread = iter(rows)
    writers = [NumberColumn(c, str, none="") if isinstance(c, str) else c for c in columns]
    known = [tuple(row) for row in islice(unread, most)]
    kept = [n for n, w in enumerate(writers) if not w.rare or any(r[n] is not None for r in known)]
    columns, writers = [columns[n] for n in kept], [writers[n] for n in kept]
    shown = tuple(
        tuple(writer.cell(row[n]) for n, writer in zip(kept, writers, strict=True)) for row in known
    )
    if left := sum(1 for _ in unread):
        note = f"{note} {left:,} more{rest}.".lstrip()
    scales: dict[str, list[int]] = {}
    for n, writer in enumerate(writers):
        if writer.bar:
            scales.setdefault(writer.bar, []).append(n)
    headings = tuple(writer.heading for writer in writers)
    right = tuple(n for n, column in enumerate(columns) if not isinstance(column, str))
    return Table(title, headings, barred(shown, *scales.values()), note, volatile, right, stage)


def number(cell: Cell) -> float | None:
    """Returns the number that a cell stands for; None for text."""
    return cell.value if isinstance(cell.value, int | float) else None


def count(n: int, noun: str, plural: str = "") -> str:
    """Formats a count with its noun: `1 fusion`, `2 fusions`, `1,024 equations`."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def amount(n: float | None, unit: str = "B") -> str:
    """Formats a figure with three significant digits and a decimal prefix: `1.34 MB`."""
    if n is None:
        return "unknown"
    value, index = float(n), 0
    while abs(value) >= 999.5 and index < len(_PREFIXES) - 1:
        value, index = value / 1000, index + 1
    is_whole = abs(value) >= 999.5 or (not index and value == int(value))
    digits = f"{value:,.0f}" if is_whole else f"{value:.3g}"
    return f"{digits} {_PREFIXES[index]}{unit}"


def read_amount(text: str) -> float | None:
    """Returns the number of a text such as "12", "1e9", "2 GB" (10^9) or "15.75 GiB"; None else."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        return None
    factor: int = (1024 if match[3] else 1000) ** " kmgtp".index(match[2].lower() or " ")
    return float(match[1]) * factor


def share(part: float, whole: float | None) -> str:
    """Formats a part of a whole in percent: `12%`, `< 1%`."""
    percent = f"{part / whole:.0%}" if whole else "0%"
    return "< 1%" if part > 0 and percent == "0%" else percent


def percent(part: float) -> str:
    """Formats a share of 1 in percent, as `share` does."""
    return share(part, 1)


def tally(names: Iterable[str]) -> list[str]:
    """Returns names with their counts, `["mul x 3", "tanh"]`, in order of first appearance.

    Args:
        names: The names; of a mapping, the values are the counts.
    """
    return [f"{name} x {n}" if n > 1 else name for name, n in Counter(names).items()]


def total(sizes: Iterable[int | None]) -> int | None:
    """Returns the sum of sizes; None if one of them is unknown."""
    parts = list(sizes)
    return None if None in parts else sum(size for size in parts if size is not None)


def duration(seconds: float) -> str:
    """Formats a time with three significant digits: `1.5 h`, `1.25 s`, `12.3 ms`, `840 µs`."""
    if seconds >= 999.5:
        return f"{seconds / 3600:.3g} h" if seconds >= 3598 else f"{seconds / 60:.3g} min"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)):
        if seconds >= 0.9995 * scale:
            return f"{seconds / scale:.3g} {unit}"
    return "0 s" if seconds <= 0 else f"{seconds / 1e-9:.3g} ns"


def traced_again(name: str, times: int) -> str:
    """Returns the sentence on a function that was traced for more than a look; "" for 0 times."""
    name = "the function" if name in ("", "expression") else name
    more = "again" if times == 1 else f"{times} times more"
    return f"For this, {name} was traced {more}, which runs its Python again." if times > 0 else ""
