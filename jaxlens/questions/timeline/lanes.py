"""Draws lanes of bars over time: what Python and devices did.

The SVG is a chart that a page zooms along time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest

from jaxlens.render import chart
from jaxlens.render.graph.text_width import columns, shorten
from jaxlens.report import duration

LANES = 24  # most lanes of a picture
BARS = 400  # most bars of a lane
_WIDTH, _LEFT, _RIGHT, _TOP, _ROW = 860.0, 150.0, 14.0, 26.0, 30.0
_BAR = 20.0  # height of a bar
_CHARACTER = 7.3  # width in pixels of a character of a chart's text
_THIN = 0.001  # least width of a bar: browsers draw none of width 0
_TEXT = 40  # rows of the text form
_LEGEND = 8  # rows of the legend
_PLOT = _WIDTH - _LEFT - _RIGHT


@dataclass(frozen=True, slots=True)
class LaneBar:
    """One bar of a lane.

    Attributes:
        start: Seconds from the left end.
        seconds: Its length.
        owner: What gives it its colour; one without a colour is drawn quietly.
        label: What is written on it where there is room.
        tip: What a page shows for it.
    """

    start: float
    seconds: float
    owner: str
    label: str
    tip: str


def lanes_svg(
    lanes: Sequence[tuple[str, Sequence[LaneBar]]],
    hues: Mapping[str, int],
    legend: Mapping[str, str],
    done: tuple[float, str] | None = None,
) -> str:
    """Returns the lanes as SVG, of each its longest bars.

    Args:
        lanes: Names and bars, from the top.
        hues: The colour of each owner, as of `line_hues`.
        legend: Texts of owners, of which the first are written below the lanes.
        done: Seconds at which a line is drawn through all lanes, with its text.
    """
    ends = [bar.start + bar.seconds for _, bars in lanes for bar in bars]
    end = max([done[0] if done else 0.0, *ends]) or 1e-9
    scale = _PLOT / end
    bottom = _TOP + _ROW * len(lanes)
    marks, labels, drawn = list(_grid(end, scale, bottom)), [], []
    for number, (name, bars) in enumerate(lanes):
        y = _TOP + number * _ROW + (_ROW - _BAR) / 2
        marks.append(chart.words(_LEFT - 8, y + 14, name, "text", "end"))
        marks.append(chart.line(_LEFT, y + _BAR, _WIDTH - _RIGHT, y + _BAR, "grid"))
        longest = nlargest(BARS, bars, key=lambda bar: bar.seconds)
        for bar in sorted(longest, key=lambda bar: bar.start):
            has_hue = bar.owner in hues
            kind = chart.hue(hues[bar.owner]) if has_hue else "quiet"
            x, w = _LEFT + max(bar.start, 0.0) * scale, max(bar.seconds * scale, _THIN)
            owner = bar.owner if has_hue else ""
            drawn.append(chart.rect(x, y, w, _BAR, kind, tip=bar.tip, line=owner, digits=3))
            label = shorten(bar.label, 24)
            if columns(label) * _CHARACTER + 8 <= w:
                labels.append(chart.words(x + 4, y + 14, label))
    if done:
        x = _LEFT + done[0] * scale
        drawn.append(chart.line(x, _TOP, x, bottom, "hot"))
        side: chart.Anchor = "start" if x < _WIDTH / 2 else "end"
        labels.append(chart.words(x, _TOP - 9, done[1], "text", side))
    marks.append(chart.plot(_LEFT, _TOP, _PLOT, bottom - _TOP, end, drawn, "seconds"))
    marks.append(chart.group("labels", labels))
    named = list(legend.items())[:_LEGEND]
    for number, (owner, text) in enumerate(named):
        top = bottom + 36 + 18 * number
        marks.append(chart.rect(_LEFT, top - 9, 14, 10, chart.hue(hues[owner])))
        marks.append(chart.words(_LEFT + 20, top, shorten(text, 90)))
    return chart.chart(_WIDTH, bottom + 30 + 18 * len(named), marks)


def _grid(end: float, scale: float, bottom: float) -> Iterator[str]:
    """Yields grid lines at round times, and these times."""
    ticks = []
    for seconds in chart.ticks(end):
        x = _LEFT + seconds * scale
        side: chart.Anchor = "start" if not seconds else "end" if seconds == end else "middle"
        yield chart.line(x, _TOP, x, bottom, "grid")
        ticks.append(chart.words(x, bottom + 16, duration(seconds), "dim", side))
    yield chart.group("ticks", ticks)


def lanes_text(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Yields rows in aligned columns, as the text of a picture."""
    shown = rows[:_TEXT]
    widths = [max(map(columns, cells)) for cells in zip(*shown, strict=True)][:-1]
    for *cells, last in shown:
        padded = (text + " " * (w - columns(text)) for text, w in zip(cells, widths, strict=True))
        yield "  ".join((*padded, last)).rstrip()
    if len(rows) > _TEXT:
        yield f"{len(rows) - _TEXT:,} more steps are left out"
