"""The view of `%%jaxpr --tree`: operations on elements by the levels that they must wait for.

In the picture a level is a row; inputs stand at the top. An operation stands below what it reads,
so a sum in pairs is a tree, a loop a chain, and an elementwise program columns.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from statistics import fmean
from textwrap import wrap

from jaxlens.questions.trace.tree.facts import Depth, Operation, Tree
from jaxlens.questions.trace.tree.report import findings, levels_table
from jaxlens.render import chart
from jaxlens.render.document import Block, Findings, Picture, Tab, TableBlock, Tabs
from jaxlens.render.graph.palette import line_hues
from jaxlens.render.graph.text_width import shorten
from jaxlens.report import count
from jaxlens.views.listings.panes import jaxpr_tab

_WIDTH, _RIGHT, _TOP, _BOTTOM = 860.0, 16.0, 40.0, 14.0
_UNIT = 52.0  # pixels between neighbours, at most
_ROW, _LEAST_ROW, _HIGH = 46.0, 15.0, 620.0  # pixels between levels; of all levels
_WRITTEN = 64  # operations in the text form
_COLUMNS = 92
_LEVELS = 24  # levels in the text form
_SIGNS = {"add": "+", "add_any": "+", "sub": "-", "mul": "×", "div": "÷", "dot_general": "@"}


def blocks(depth: Depth, full: bool = False) -> list[Block]:
    """Returns findings, the picture, the levels and the jaxpr."""
    listing = jaxpr_tab(depth.subject(), full, in_text=full)
    shown: list[Block] = [Findings(tuple(findings(depth)))]
    if not depth.levels:
        return [*shown, Tabs((listing,))]
    help = "Operations on elements by level: those of a level can be done at the same time."
    body: list[Block] = [picture(depth.tree)] if depth.tree is not None else []
    body.append(TableBlock(levels_table(depth)))
    return [*shown, Tabs((Tab("Tree", tuple(body), True, help, "tree"), listing))]


def picture(tree: Tree) -> Picture:
    """Draws the operations, a row for each level."""
    at, by_level = positions(tree), _by_level(tree)
    named = [_level_name(n, operations) for n, operations in by_level.items()]
    left = max(map(chart.width, named)) + 20
    span = max(at.values(), default=0.0)
    unit = min(_UNIT, (_WIDTH - left - _RIGHT - 16) / max(span, 1.0))
    row = max(_LEAST_ROW, min(_ROW, _HIGH / len(by_level)))
    radius = max(3.0, min(12.0, unit * 0.42, row * 0.38))
    x = {n: left + 8 + place * unit for n, place in at.items()}
    y = {n: _TOP + level * row for n, level in _level(tree).items()}
    wires = [
        chart.line(x[n], y[n], x[o.number], y[o.number]) for o in tree.operations for n in o.reads
    ]
    marks = [*_levels(named, left, row), *wires]
    marks += [*_inputs(tree, x, radius, unit), *_operations(tree, x, y, radius)]
    size = f"{count(len(tree.operations), 'operation')} in {count(len(by_level), 'level')}"
    title = "Tree of the operations"
    note = (
        "A square is an element of an input, a circle an operation on elements, a ring round it an "
        "element of the result; constants are left out."
    )
    height = _TOP + len(by_level) * row + max(_BOTTOM, radius + 6)
    svg = chart.chart(_WIDTH, height, marks)
    return Picture(title, f"{title}: {size}.", svg, tuple(_text(tree)), "jaxpr", note)


def positions(tree: Tree) -> dict[int, float]:
    """Returns how far to the right each element and operation stands; neighbours are 1 apart."""
    at = {number: float(n) for n, number in enumerate(tree.inputs)}
    level = _level(tree)
    for operations in _by_level(tree).values():
        wanted = {o.number: _below(o, at, level) for o in operations}
        order = sorted(wanted, key=lambda n: (wanted[n], n))
        # As far left as the order allows, as far right, and between the two.
        rightward, leftward = [wanted[n] for n in order], [wanted[n] for n in order]
        for k in range(1, len(order)):
            rightward[k] = max(rightward[k], rightward[k - 1] + 1)
            leftward[-k - 1] = min(leftward[-k - 1], leftward[-k] - 1)
        at.update((n, (a + b) / 2) for n, a, b in zip(order, rightward, leftward, strict=True))
    first = min(at.values(), default=0.0)
    return {n: place - first for n, place in at.items()}


def _below(operation: Operation, at: Mapping[int, float], level: Mapping[int, int]) -> float:
    """Returns the middle of what an operation reads; of what it reads from the first levels alone.

    So a step of a loop stands below the element that it takes, and not below the loop.
    """
    first = min(level[n] for n in operation.reads)
    return fmean(at[n] for n in operation.reads if level[n] == first)


def _level(tree: Tree) -> dict[int, int]:
    return dict.fromkeys(tree.inputs, 0) | {o.number: o.level for o in tree.operations}


def _by_level(tree: Tree) -> dict[int, list[Operation]]:
    levels = groupby(sorted(tree.operations, key=attrgetter("level")), attrgetter("level"))
    return {level: list(operations) for level, operations in levels}


def _level_name(number: int, operations: Sequence[Operation]) -> str:
    counts = Counter(operation.primitive for operation in operations)
    of = ", ".join(f"{n} {name}" for name, n in counts.items())
    return shorten(f"level {number}: {of}", 26)


def _levels(named: Sequence[str], left: float, row: float) -> list[str]:
    marks = []
    every = 1 if row >= 13 else 2
    for n, name in enumerate(named, 1):
        y = _TOP + n * row
        marks.append(chart.line(left, y, _WIDTH - _RIGHT, y, "grid"))
        if n % every == 0 or n == len(named):
            marks.append(chart.words(8, y + 4, name, "dim"))
    return [*marks, chart.words(8, _TOP + 4, "inputs", "dim")]


def _inputs(tree: Tree, x: Mapping[int, float], radius: float, unit: float) -> list[str]:
    """Squares with their names; with indices alone, or the ends alone, where there is no room."""
    names = list(tree.inputs.values())
    indices = [name.partition("[")[2].rstrip("]") or name for name in names]
    for texts in (names, indices):
        if max(map(chart.width, texts)) <= unit - 4:
            break
    else:
        texts = [name if n in (0, len(names) - 1) else "" for n, name in enumerate(names)]
    half = min(radius, 7.0)
    marks = []
    for n, (number, text) in enumerate(zip(tree.inputs, texts, strict=True)):
        place = x[number]
        square = (place - half, _TOP - half, 2 * half, 2 * half)
        marks.append(chart.rect(*square, "quiet", tip=names[n]))
        ends = chart.width(text) > unit and n == len(names) - 1 and n > 0
        anchor: chart.Anchor = "end" if ends else "middle"
        if text:
            marks.append(chart.words(place + (half if ends else 0), _TOP - 16, text, "dim", anchor))
    return marks


def _operations(
    tree: Tree, x: Mapping[int, float], y: Mapping[int, float], radius: float
) -> list[str]:
    hues = line_hues([operation.line for operation in tree.operations])
    marks = []
    for operation in tree.operations:
        n, sign = operation.number, _SIGNS.get(operation.primitive, operation.primitive)
        if n in tree.results:
            marks.append(chart.circle(x[n], y[n], radius + 3, "axis"))
        tip = f"{operation.primitive}, level {operation.level}, equation {operation.equation}"
        kind = chart.hue(hues[operation.line]) if operation.line in hues else "quiet"
        at = {"id": operation.equation, "line": operation.line}
        marks.append(chart.circle(x[n], y[n], radius, kind, tip=tip, **at))
        if radius >= 6.5 and chart.width(sign) <= 2 * radius - 1:
            marks.append(chart.words(x[n], y[n] + 4, sign, "text", "middle"))
    return marks


def _text(tree: Tree) -> list[str]:
    """Returns each level's operations: `level 2: 3 = add(1, 2)`, by the numbers of the others."""
    name = {**tree.inputs, **{o.number: f"{n}" for n, o in enumerate(tree.operations, 1)}}
    shown = {operation.number for operation in tree.operations[:_WRITTEN]}
    lines = []
    levels = _by_level(tree)
    for level, operations in list(levels.items())[:_LEVELS]:
        texts = [
            f"{name[o.number]}{'*' if o.number in tree.results else ''} = "
            f"{o.primitive}({', '.join(name[n] for n in o.reads)})"
            for o in operations
            if o.number in shown
        ]
        if len(texts) < len(operations):
            texts.append(f"{len(operations) - len(texts):,} more")
        line = f"level {level}: {'; '.join(texts)}"
        lines += wrap(line, _COLUMNS, subsequent_indent="    ", break_long_words=False)
    if len(levels) > _LEVELS:
        lines.append(f"{count(len(levels) - _LEVELS, 'more level')}")
    return [*lines, "A * marks an element of the result."]
