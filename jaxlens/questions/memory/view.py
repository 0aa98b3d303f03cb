"""The view of `%%compile --memory`: findings, the chart of live ranges, and the tables.

The chart is XLA's buffer assignment: a value is a rectangle from the instruction that defines it to
the last use, at its offset. Positions of the schedule where nothing is computed are left out.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

from jaxlens.errors import LensError
from jaxlens.ir.hlo.live_ranges import in_use
from jaxlens.program.lines import lines, spot
from jaxlens.questions.memory.facts import HeldValue, MemoryFacts, Timeline
from jaxlens.questions.memory.report import report
from jaxlens.render import chart
from jaxlens.render.document import Block, Findings, Picture, Tab, TableBlock, Tabs
from jaxlens.render.graph.palette import line_hues
from jaxlens.render.graph.text_width import shorten
from jaxlens.report import Overlay, amount
from jaxlens.views import source_pane
from jaxlens.views.listings.panes import pane

_WIDTH, _LEFT, _RIGHT, _TOP, _HIGH = 860.0, 74.0, 12.0, 26.0, 320.0
_MOST = 1_200  # rectangles
_ARGUMENTS = 8  # arguments that are drawn separately; more are drawn as one
_ORDER = ("parameter", "constant", "output", "temporary")
_ROWS, _COLUMNS = 10, 64  # of the chart in lines of text


def blocks(facts: MemoryFacts, full: bool = False) -> list[Block]:
    """Returns findings, the chart, tables, and the user's lines tinted by bytes at the peak."""
    answer, timeline = report(facts), facts.timeline()
    tables = tuple(map(TableBlock, answer.tables))
    if timeline is None:
        return [Findings(answer.findings), *tables]
    code = pane(
        "source",
        lambda: _tinted(facts),
        title="Your code",
        in_text=True,
        help="Your lines, tinted by bytes at the peak.",
    )
    help = "What is in memory at the peak, and the rest."
    tabs = (Tab("At the peak", tables, True, help, "memory"), code)
    shown = Tabs(tuple(tab for tab in tabs if tab.blocks))
    return [Findings(answer.findings), picture(timeline), shown]


def _tinted(facts: MemoryFacts) -> tuple[Block, ...]:
    """Returns the user's lines, tinted by the bytes that they own at the peak."""
    subject = facts.subject()
    try:
        module = subject.jaxpr.module
    except LensError:  # a program opened from a later stage
        module = subject.optimized.module
    made = lines(module)
    named = {f"{made.names[key]}:{line}": ids for (key, line), ids in made.own.items()}
    tint: Counter[str] = Counter()
    for value in facts.at_peak:
        # Of a value whose line only the links know there is no span.
        ids = made.own.get(spot(value.span)) if value.span else named.get(value.line)
        if ids:
            tint[ids[0]] += value.bytes  # the first equation of a line gets all the line's bytes
    overlay = Overlay("the bytes at the peak", module.stage, tint)
    whole = sum(value.bytes for value in facts.at_peak)
    return source_pane.blocks(module, subject.sources, {}, overlay, "B", whole)


@dataclass(frozen=True, slots=True)
class _Bar:
    """A rectangle: a value, from the moment that defines it to its last use, at its offset."""

    held: HeldValue
    first: int
    last: int
    low: int


def picture(timeline: Timeline) -> Picture:
    """Returns the chart of live ranges over the schedule, with the peak marked."""
    live, moments = timeline.live, timeline.moments
    peak = min(bisect_left(moments, live.position), len(moments) - 1)
    alt = (
        f"{timeline.memory} over {len(moments)} instructions: {amount(live.bytes)} at the peak, "
        f"when {live.instruction} runs, of {amount(max(live.reserved, 1))} reserved"
    )
    return Picture(
        f"{timeline.memory} over the schedule",
        alt,
        _drawing(timeline, peak),
        tuple(_text(timeline)),
        "optimized",
        "Left to right: instructions in XLA's order, a loop's body once. Upwards: bytes as XLA "
        "placed them; colours are source lines.",
    )


def _bars(timeline: Timeline) -> list[_Bar]:
    """Returns the rectangles, arguments lowest."""
    sizes, values, moments = timeline.sizes, timeline.live.values, timeline.moments
    kinds = {value.allocation: _ORDER.index(value.holder) for value in values}
    numbers = sorted(sizes, key=lambda n: (kinds[n], n))
    base = dict(zip(numbers, accumulate((sizes[n] for n in numbers), initial=0), strict=False))
    bars: list[_Bar] = []
    for held, live in sorted(timeline.values, key=lambda pair: (pair[1].place, pair[1].start)):
        first = bisect_left(moments, live.start)
        last = max(first, bisect_left(moments, live.end + 1) - 1)
        bars.append(_Bar(held, first, last, base[live.allocation] + live.buffer.offset))
    arguments = [bar for bar in bars if bar.held.kind == "argument"]
    if len(arguments) > _ARGUMENTS:  # joined: the borders of many would hide them
        bars = [bar for bar in bars if bar.held.kind != "argument"]
        inputs = {value.allocation for value in values if value.holder == "parameter"}
        size = sum(sizes[number] for number in inputs)
        joined = HeldValue("arguments", f"{len(inputs):,} arrays", size, "argument")
        bars.append(_Bar(joined, 0, len(moments) - 1, 0))
    return sorted(bars, key=lambda bar: -bar.held.bytes)[:_MOST]


def _drawing(timeline: Timeline, peak: int) -> str:
    bars = _bars(timeline)
    whole = max(sum(timeline.sizes.values()), 1)
    step = (_WIDTH - _LEFT - _RIGHT) / len(timeline.moments)
    high = _HIGH / whole
    bottom = _TOP + _HIGH
    hues = line_hues(bar.held.line for bar in bars if bar.held.line)
    heights = [(bottom - size * high, amount(size)) for size in chart.ticks(whole)]
    marks = [chart.line(_LEFT, y, _WIDTH - _RIGHT, y, "grid") for y, _ in heights]
    ticks = [chart.words(_LEFT - 6, y + 4, text, "dim", "end") for y, text in heights]
    parts: list[str] = []
    labels: list[str] = []
    for bar in bars:
        x, w = _LEFT + bar.first * step, (bar.last - bar.first + 1) * step
        owned = bar.held
        y, h = bottom - (bar.low + owned.bytes) * high, owned.bytes * high
        kind = chart.hue(hues[owned.line]) if owned.line in hues else "quiet"
        parts.append(
            chart.rect(x, y, w, h, kind, tip=_tip(owned), id=owned.instruction, line=owned.line)
        )
        label = (owned.line if owned.kind != "argument" else "") or owned.name
        texts = (f"{label} {amount(owned.bytes)}", label)
        if h >= 14 and (text := next((t for t in texts if chart.width(t) <= w - 8), "")):
            labels.append(chart.words(x + 4, y + h / 2 + 4, text))
    x = _LEFT + (peak + 0.5) * step
    parts.append(chart.line(x, _TOP - 4, x, bottom, "hot"))
    label = shorten(f"peak {amount(timeline.live.bytes)}: {timeline.live.instruction}", 60)
    labels.append(chart.words(x, _TOP - 9, label, "text", "start" if x < _WIDTH / 2 else "end"))
    labels.append(chart.words(_LEFT, bottom + 16, "first instruction", "dim"))
    labels.append(chart.words(_WIDTH - _RIGHT, bottom + 16, "last", "dim", "end"))
    marks.append(chart.group("ticks", ticks))
    marks.append(chart.plot(_LEFT, _TOP, _WIDTH - _LEFT - _RIGHT, _HIGH, whole, parts))
    marks.append(chart.group("labels", labels))
    return chart.chart(_WIDTH, bottom + 24, marks)


def _tip(owned: HeldValue) -> str:
    saved = "saved for the backward pass" if owned.saved else ""
    parts = (f"{owned.name} {owned.type}", amount(owned.bytes), owned.kind, owned.line, saved)
    return ", ".join(filter(None, parts))


def _text(timeline: Timeline) -> Iterator[str]:
    """Yields a text chart of the bytes in use over the schedule."""
    steps = [*in_use(timeline.live.values)]
    starts = [position for _, position in steps]
    use = [steps[bisect_right(starts, moment) - 1][0] for moment in timeline.moments]
    width = min(_COLUMNS, len(use))
    cuts = [n * len(use) // width for n in range(width + 1)]
    most = [max(use[a:b]) for a, b in pairwise(cuts)]
    whole = max(most, default=1) or 1
    for row in range(_ROWS, 0, -1):
        level = (row - 0.5) / _ROWS * whole
        scale = amount(whole * row / _ROWS) if row in (_ROWS, _ROWS // 2) else ""
        yield f"{scale:>8} |{''.join('#' if used >= level else ' ' for used in most).rstrip()}"
    at = most.index(whole) if whole in most else 0
    yield f"{'':>8} |{' ' * at}^ {timeline.live.instruction}"
