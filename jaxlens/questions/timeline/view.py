"""The view of a run: findings, lanes of Python and the devices over time, and the tables."""

from collections.abc import Iterator, Sequence
from heapq import nlargest

from jaxlens.questions.timeline.events import (
    FLATTENS,
    FROM_DEVICE,
    TO_DEVICE,
    Activity,
    Dispatch,
    Execution,
    Wait,
)
from jaxlens.questions.timeline.facts import ELSEWHERE, TimelineFacts, by_device
from jaxlens.questions.timeline.report import report
from jaxlens.render import chart
from jaxlens.render.document import Block, Document, Findings, Picture, TableBlock
from jaxlens.render.graph.palette import line_hues
from jaxlens.render.graph.text_width import shorten
from jaxlens.report import count, duration

_LANES = 24  # most lanes of a picture
_BARS = 400  # most bars of a lane
_WIDTH, _LEFT, _RIGHT, _TOP, _ROW = 860.0, 150.0, 14.0, 26.0, 30.0
_BAR = 20.0  # height of a bar
_THIN = 0.001  # least width of a bar: browsers draw none of width 0
_LEGEND = 8  # rows of the legend
_PLOT = _WIDTH - _LEFT - _RIGHT
_Event = Dispatch | Wait | Execution | Activity


def document(facts: TimelineFacts) -> Document:
    """Returns the document of a run."""
    waits = count(facts.waits, "wait")
    taken = f"timeline of the {facts.ran}: {count(facts.dispatched, 'dispatch', 'dispatches')}"
    answer = report(facts)
    blocks: list[Block] = [Findings(answer.findings)]
    if facts.lines or facts.devices:
        blocks.append(picture(facts))
    blocks += map(TableBlock, answer.tables)
    return Document("timeline", f"{taken}, {waits}", tuple(blocks))


def picture(facts: TimelineFacts) -> Picture:
    """Returns the lanes."""
    dispatches = count(facts.dispatched, "dispatch", "dispatches")
    alt = f"Lanes over time: {dispatches} and {count(facts.waits, 'wait')} of Python"
    devices = ", ".join(use.device for use in facts.devices)
    alt += f"; executions on {devices}" * bool(devices)
    lanes = _lanes(facts)
    short = [f'"{name}"' for name, events in lanes[:_LANES] if len(events) > _BARS]
    legend = "Left to right: time. Colours are lines of yours: an execution has the colour of the "
    legend += "line that dispatched it."
    note = f"Of {' and '.join(short)} the {_BARS} longest are drawn." if short else ""
    return Picture(
        "Python and the device over time",
        alt,
        _drawing(facts, lanes[:_LANES]),
        (f"{alt}.",),
        note=note,
        legend=legend,
    )


def _lanes(facts: TimelineFacts) -> list[tuple[str, Sequence[_Event]]]:
    """Returns lanes from the top: Python's, copies, then each device's."""
    timeline = facts.timeline

    def of(lane: str) -> list[Activity]:
        return [activity for activity in timeline.activities if activity.lane == lane]

    lanes: list[tuple[str, Sequence[_Event]]] = [
        ("Python dispatches", timeline.dispatches),
        (FLATTENS, of(FLATTENS)),
        ("Python waits", timeline.waits),
        *((lane, of(lane)) for lane in (TO_DEVICE, FROM_DEVICE)),
    ]
    lanes += ((f"{device} executes", own) for device, own in by_device(timeline).items())
    return [lane for lane in lanes if lane[1]]


def _drawing(facts: TimelineFacts, lanes: Sequence[tuple[str, Sequence[_Event]]]) -> str:
    """Returns the lanes as SVG, of each its longest bars; a page zooms it along time."""
    texts = {use.line.place: use.line.text for use in facts.lines if use.line != ELSEWHERE}
    hues, done = line_hues(texts), facts.timeline.seconds
    end = max([done, *(e.start + e.seconds for _, events in lanes for e in events)]) or 1e-9
    scale = _PLOT / end
    bottom = _TOP + _ROW * len(lanes)
    marks, labels, drawn = list(_grid(end, scale, bottom)), [], []
    for number, (name, events) in enumerate(lanes):
        y = _TOP + number * _ROW + (_ROW - _BAR) / 2
        marks.append(chart.words(_LEFT - 8, y + 14, name, "text", "end"))
        marks.append(chart.line(_LEFT, y + _BAR, _WIDTH - _RIGHT, y + _BAR, "grid"))
        longest = nlargest(_BARS, events, key=lambda event: event.seconds)
        for event in sorted(longest, key=lambda event: event.start):
            place = (event.line or ELSEWHERE).place
            kind, owner = (chart.hue(hues[place]), place) if place in hues else ("quiet", "")
            x, w = _LEFT + max(event.start, 0.0) * scale, max(event.seconds * scale, _THIN)
            drawn.append(chart.rect(x, y, w, _BAR, kind, tip=_tip(event), line=owner, digits=3))
            label = shorten(_name(event), 24)
            if chart.width(label) + 8 <= w:
                labels.append(chart.words(x + 4, y + 14, label))
    x = _LEFT + done * scale
    drawn.append(chart.line(x, _TOP, x, bottom, "hot"))
    side: chart.Anchor = "start" if x < _WIDTH / 2 else "end"
    labels.append(chart.words(x, _TOP - 9, "Python is done", "text", side))
    marks.append(chart.plot(_LEFT, _TOP, _PLOT, bottom - _TOP, end, drawn, "seconds"))
    marks.append(chart.group("labels", labels))
    named = list(texts.items())[:_LEGEND]
    for number, (place, text) in enumerate(named):
        top = bottom + 36 + 18 * number
        marks.append(chart.rect(_LEFT, top - 9, 14, 10, chart.hue(hues[place])))
        line = shorten(f"{place}: {text}".removesuffix(": "), 90)
        marks.append(chart.words(_LEFT + 20, top, line))
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


def _name(event: _Event) -> str:
    return event.name if isinstance(event, Activity) else event.program or "a program"


def _tip(event: _Event) -> str:
    """Returns name, time, kind, and line; a page shortens it in this order."""
    line = event.line or ELSEWHERE
    kinds = {Dispatch: "dispatched", Wait: "Python waits for it", Execution: "executed"}
    kind = event.lane if isinstance(event, Activity) else kinds[type(event)]
    text = f": {line.text}" if line.text else ""
    return f"{_name(event)}, {duration(event.seconds)}, {kind}, {line.place}{text}"
