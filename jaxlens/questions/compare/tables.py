"""Tables of what changed between two captures: figures, lines, fusions."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median
from typing import Any

from jaxlens.ir.graph import Node
from jaxlens.links.match.across_edits import Pairs
from jaxlens.program.figures import FIGURES, Metric
from jaxlens.program.kernels import inside
from jaxlens.program.sentences import opcodes
from jaxlens.questions.compare.facts import NAMES, Comparison, Names
from jaxlens.report import Cell, NumberColumn, Table, amount, barred, cells, count, duration, table

_ROWS = 60


def tables(comparison: Comparison, names: Names) -> Iterator[Table]:
    """Yields the tables of a comparison; some may have no rows."""
    yield _figures(comparison, names)
    yield _by_line(comparison, names)
    if comparison.instructions is not None:
        yield _fusions(comparison.instructions, names)


def _figures(comparison: Comparison, names: Names) -> Table:
    """Returns a table of both sides of each figure, each with a scale of its own."""
    rows: list[tuple[Cell, ...]] = []
    for name, (was, now) in comparison.figures.items():
        if was is None and now is None:
            continue
        figure = FIGURES[name]
        write = partial(amount, unit=figure.unit) if figure.unit else None
        side = NumberColumn(name, write, none="not given")
        cells = (Cell(figure.title), side.cell(was), side.cell(now), _difference(was, now, figure))
        rows += [cells] if was == now else barred([cells], (1, 2))
    note = (
        "Equations, flops and bytes of arguments are counted over the jaxpr, flops by the trips of "
        "loops."
    )
    if "temporaries" in comparison.figures:
        note += " Memory is XLA's buffer assignment, bytes accessed its cost analysis; executions "
        note += "and what kernels move are counted, by the trips of loops."
        if any(comparison.figures.get("library_calls", ())):
            note += " XLA counts no flops for a library call that is a custom call."
    return Table("Figures", ("", *names, "change"), tuple(rows), note, right=(1, 2, 3))


def _difference(was: int | None, now: int | None, figure: Metric) -> Cell:
    if was is None or now is None:
        return Cell("")
    if was == now:
        return Cell("same", 0)
    sign = "+" if now > was else "-"
    size = amount(abs(now - was), figure.unit) if figure.unit else f"{abs(now - was):,}"
    return Cell(f"{sign}{size}{_ratio(was, now)}", now - was)


def _ratio(was: int, now: int) -> str:
    """Returns the relative change, " (+12%)"; "" for less than half a percent."""
    change = (now - was) / was if was else 0.0
    return f" ({change:+.0%})" if abs(change) > 0.005 else ""


def _by_line(comparison: Comparison, names: Names) -> Table:
    """Returns a table of the lines whose equations changed."""
    rows = (
        (
            line.before or "-",
            Cell(line.after or "-", ids=(*line.new, *line.changed)),
            len(line.new),
            len(line.gone),
            len(line.changed),
            line.what,
        )
        for line in comparison.lines
    )
    new, gone, changed = (NumberColumn(n, bar="equations") for n in ("new", "gone", "changed"))
    columns = (f"line {names[0]}", f"line {names[1]}", new, gone, changed, "what")
    return table("Equations by line", columns, rows, most=_ROWS, stage="jaxpr")


def _fusions(pairs: Pairs, names: Names) -> Table:
    """Returns a table of the fusions that are new, gone or have other instructions."""
    old = {n.id: n for n in pairs.before.nodes() if n.opcode == "fusion"}
    new = {n.id: n for n in pairs.after.nodes() if n.opcode == "fusion"}
    fusions: list[tuple[Node | None, Node | None]] = []
    fusions += [(old[id], None) for id in pairs.gone if id in old]
    fusions += [(old[a], new[b]) for a, b in pairs.changed.items() if a in old and b in new]
    fusions += [(None, new[id]) for id in pairs.new if id in new]
    rows = [_fusion(before, after, pairs) for before, after in fusions]
    rows = [row for row in rows if row[2].text or row[3].text]
    note = "Fusions whose contents are the same are left out."
    if typed := len(fusions) - len(rows):
        note += f" {count(typed, 'fusion')} of the same operations on other values, too."
    columns = (f"fusion {names[0]}", f"fusion {names[1]}", "holds more", "holds less")
    return table("Fusions", columns, rows, note, most=_ROWS, stage="optimized")


def _fusion(old: Node | None, new: Node | None, pairs: Pairs) -> tuple[Cell, ...]:
    left = inside(old, pairs.before) if old else ()
    right = inside(new, pairs.after) if new else ()
    images = {pairs.images.get(node.id) for node in left}
    ids = {node.id for node in right}
    gained = [node for node in right if node.id not in images]
    lost = [node for node in left if pairs.images.get(node.id) not in ids]
    more, less = opcodes(_beyond(gained, lost)), opcodes(_beyond(lost, gained))
    after = Cell(new.id, ids=(new.id,)) if new else Cell("-")
    return Cell(old.id if old else "-"), after, *cells(more, less)


def _beyond(nodes: Sequence[Node], others: Sequence[Node]) -> Iterator[Node]:
    """Yields the nodes of opcodes that are more often among them than among the others."""
    left = Counter(node.opcode for node in others)
    for node in nodes:
        left[node.opcode] -= 1
        if left[node.opcode] < 0:
            yield node


def runs(measured: Any, names: Names = NAMES) -> Table:
    """Returns a table of the seconds of executions of both programs."""
    both = zip(names, (measured.before, measured.after), strict=True)
    rows = ((name, len(s), median(s), min(s), max(s)) for name, s in both)
    how = f"{measured.how[:1].upper()}{measured.how[1:]}."
    times = (NumberColumn(name, duration, "s") for name in ("median", "least", "most"))
    return table("Measured", ("", NumberColumn("runs"), *times), rows, how, volatile=True)
