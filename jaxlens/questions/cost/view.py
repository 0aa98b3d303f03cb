"""The view of `%%compile --cost` and `--roofline`: findings, the roofline chart, tables.

The chart is log-log: a kernel's x is its flops per byte, its y its flops per second, measured or
else the upper bound. The sloped part of the roof is the memory bandwidth.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from jaxlens.errors import LensError
from jaxlens.ir.facts import Limits
from jaxlens.program.kernel_cost import Point
from jaxlens.questions.cost.modules import ModuleCost, module_table
from jaxlens.questions.cost.report import report as equations
from jaxlens.questions.cost.roofline import CostFacts, report, roofline
from jaxlens.render import chart
from jaxlens.render.document import Block, Findings, Fold, Picture, Tab, TableBlock, Tabs
from jaxlens.render.graph.palette import line_hues
from jaxlens.render.graph.text_width import shorten
from jaxlens.report import amount, duration
from jaxlens.views.listings import stage_blocks

_WIDTH, _LEFT, _RIGHT, _TOP, _HIGH = 860.0, 92.0, 16.0, 24.0, 320.0
_LABELS, _DOTS = 7, 200
_IDLE = 0.01  # flops per byte below which a kernel only moves data
_BY_MODULE = "Flops, bytes and memory by module and layer; a kernel counts for its result's."
_ROW = 15.0  # pixels between labels


def blocks(facts: CostFacts, full: bool = False) -> list[Block]:
    """Returns findings, the chart, and tabs of source lines, kernels and equations."""
    try:
        counted = facts.counts
        source = stage_blocks.costs(counted.subject, counted.flops, facts.works.or_else([]))
    except LensError:
        source = []
    measured = facts.seconds is not None
    kernels = tuple(TableBlock(table, asked=measured) for table in roofline(facts).tables)
    costs = tuple(map(TableBlock, equations(facts.counts).tables))
    tabs = (
        Tab("Your code", tuple(source), True, "Your lines, tinted by flops.", "source"),
        Tab("Kernels", kernels, True, key="kernels"),
        Tab("Modules", tuple(_modules(facts.modules)), True, _BY_MODULE, "modules"),
        Tab("Cost", costs, True, key="cost"),
    )
    return [
        Findings(report(facts).findings),
        *([picture(facts)] if facts.points else []),
        Tabs(tuple(tab for tab in tabs if tab.blocks), open=("source", "kernels")),
    ]


def _modules(modules: Sequence[ModuleCost], within: tuple[str, ...] = ()) -> Iterator[Block]:
    """Yields the modules within one as a table, and those of them that have modules in folds."""
    if not modules:
        return
    yield TableBlock(module_table(modules, within), asked=True)  # whether measured too or not
    depth = len(within) + 1
    inner = [m for m in modules if len(m.path) == depth and m.path[: depth - 1] == within]
    for module in sorted(inner, key=lambda m: -m.flops):
        path = module.path
        if any(m.path[:depth] == path and len(m.path) > depth for m in modules):
            title = " / ".join(path)
            yield Fold(title, tuple(_modules(modules, path)), open=len(inner) == 1)


def picture(facts: CostFacts) -> Picture:
    """Returns the roofline chart of a program's kernels."""
    limits = facts.limits
    assert limits is not None  # callers have checked `points`
    idle = [p for p in facts.points if (p.kernel.intensity or 0.0) < _IDLE]
    placed = [p for p in facts.points if (p.kernel.intensity or 0.0) >= _IDLE][:_DOTS]
    placed.sort(key=lambda p: -(p.measured or p.seconds))
    text = () if limits.measured or facts.seconds is not None else tuple(_text(facts.points))
    legend = (
        "Right: more flops per byte; up: more flops per second; the larger the dot, the longer."
    )
    note = ""
    if idle:
        moved = amount(sum(p.kernel.bytes or 0 for p in idle))
        note = f"Not drawn: {len(idle):,} kernels that only move, {moved} in all."
    name = f"Roofline of {limits.name}"
    alt = f"{name}: {len(placed)} kernels by flops per byte and flops per second"
    return Picture(name, alt, _drawing(placed, limits), text, "optimized", note, legend)


def _text(points: Sequence[Point]) -> Iterator[str]:
    """Yields lines of the kernels that take longest, each with a bar of its share."""
    whole = sum(point.seconds for point in points) or 1.0
    for point in points[:_LABELS]:
        share = point.seconds / whole
        bar = "#" * max(round(share * 40), 1)
        yield f"{shorten(point.kernel.name, 34):<34} {point.bound:<8}{share:>5.0%}  {bar}"


class _Scale:
    """Maps figures to pixels; both axes are logarithmic, with limits at powers of 10."""

    def __init__(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        self.x0, self.x1 = _decades(xs)
        self.y0, self.y1 = _decades(ys)

    def x(self, value: float) -> float:
        share = (math.log10(value) - self.x0) / (self.x1 - self.x0)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        share = (math.log10(value) - self.y0) / (self.y1 - self.y0)
        return _TOP + (1 - min(max(share, 0.0), 1.0)) * _HIGH


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low = math.floor(math.log10(min(values)))
    high = math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _drawing(placed: Sequence[Point], limits: Limits) -> str:
    tops = dict(limits.products)
    if limits.vector is not None:
        tops["outside of products"] = limits.vector
    used = {p.kernel.dtype for p in placed if p.kernel.product}
    tops = {n: r for n, r in tops.items() if n in used or n == "outside of products"} or tops
    ridge = max(tops.values()) / limits.bandwidth
    xs = [ridge / 10, ridge * 10, *(p.kernel.intensity or ridge for p in placed)]
    ys = [max(tops.values()) * 1.2, *(p.rate for p in placed if p.rate), min(tops.values()) / 100]
    scale = _Scale(xs, ys)
    marks = [*_axes(scale), *_roof(scale, tops, limits.bandwidth)]
    hues = line_hues(p.kernel.lines[0] for p in placed if p.kernel.lines)
    longest = max((p.measured or p.seconds for p in placed), default=0) or 1.0
    dots = []
    for point in placed:
        share = (point.measured or point.seconds) / longest
        x, y = scale.x(point.kernel.intensity or 1.0), scale.y(point.rate or 1.0)
        dots.append((x, y, 3 + 8 * math.sqrt(share)))
    boxes = [(x - size, x + size, y + 4) for x, y, size in dots]
    # The flat parts of the roof, which have names of their own above them.
    boxes += [
        (scale.x(rate / limits.bandwidth), _WIDTH - _RIGHT, scale.y(rate)) for rate in tops.values()
    ]
    named: set[tuple[int, int]] = set()
    for point, (x, y, size) in zip(placed, dots, strict=True):
        line = point.kernel.lines[0] if point.kernel.lines else ""
        kind = chart.hue(hues[line]) if line in hues else "quiet"
        marks.append(
            chart.circle(x, y, size, kind, tip=_tip(point), id=point.kernel.instruction, line=line)
        )
        spot = round(x / _ROW), round(y / _ROW)
        if len(named) < _LABELS and spot not in named:  # dots at one place: only the first
            named.add(spot)
            marks += _label(x, y, size, f"{point.kernel.name} {line}".strip(), boxes)
    return chart.chart(_WIDTH, _TOP + _HIGH + 44, marks)


def _label(
    x: float, y: float, size: float, text: str, boxes: list[tuple[float, float, float]]
) -> Iterator[str]:
    """Yields a dot's label, unless it would lie on the dots and labels in `boxes`."""
    text = shorten(text, 40)
    wide = chart.width(text)
    right = x + wide + 24 < _WIDTH
    start = x + size + 6 if right else x - size - 6 - wide
    at = y + 4
    if not any(start < b and start + wide > a and abs(at - c) < _ROW for a, b, c in boxes):
        boxes.append((start, start + wide, at))
        yield chart.words(start, at, text)


def _tip(point: Point) -> str:
    kernel = point.kernel
    parts = (
        kernel.name,
        *kernel.lines[:2],
        amount(kernel.flops, "flop"),
        amount(kernel.bytes),
        f"bound by {point.bound}",
        f"{duration(point.seconds)} at best",
        *([f"measured {duration(point.measured)}"] if point.measured else []),
    )
    return ", ".join(parts)


def _axes(scale: _Scale) -> Iterator[str]:
    bottom = _TOP + _HIGH
    for power in range(scale.x0, scale.x1 + 1):
        x = scale.x(10.0**power)
        yield chart.line(x, _TOP, x, bottom, "grid")
        yield chart.words(x, bottom + 16, f"{10.0**power:g}", "dim", "middle")
    step = max(1, (scale.y1 - scale.y0) // 6)
    for power in range(scale.y0, scale.y1 + 1, step):
        y = scale.y(10.0**power)
        yield chart.line(_LEFT, y, _WIDTH - _RIGHT, y, "grid")
        yield chart.words(_LEFT - 6, y + 4, amount(10.0**power, "flop/s"), "dim", "end")
    yield chart.words(_WIDTH - _RIGHT, bottom + 34, "flops per byte", "dim", "end")


def _roof(scale: _Scale, tops: Mapping[str, float], bandwidth: float) -> Iterator[str]:
    """Yields the sloped line of the memory bandwidth, and a horizontal line per peak rate."""
    highest = max(tops.values())
    start = max(10.0**scale.x0, 10.0**scale.y0 / bandwidth)
    end = highest / bandwidth
    places = [(scale.x(start), scale.y(start * bandwidth)), (scale.x(end), scale.y(highest))]
    yield chart.path(places, "hot")
    right = _WIDTH - _RIGHT
    for name, rate in tops.items():
        y = scale.y(rate)
        yield chart.line(scale.x(rate / bandwidth), y, right, y, "hot")
        yield chart.words(right, y - 5, f"{name} {amount(rate, 'flop/s')}", "dim", "end")
    middle = math.sqrt(start * end)
    yield chart.words(
        scale.x(middle) - 8, scale.y(middle * bandwidth) - 6, amount(bandwidth, "B/s"), "dim", "end"
    )
