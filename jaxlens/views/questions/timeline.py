"""The view of a run: findings, lanes of Python and the devices over time, and the tables."""

from collections.abc import Iterator, Sequence
from heapq import nlargest

from jaxlens.ir.run.timeline import (
    FLATTENS,
    FROM_DEVICE,
    TO_DEVICE,
    Activity,
    Dispatch,
    Execution,
    Wait,
)
from jaxlens.ir.run.trace_events import DISPATCHES, EXECUTES, WAITS
from jaxlens.lenses.timeline.facts import ELSEWHERE, TimelineFacts
from jaxlens.lenses.timeline.report import report, times
from jaxlens.render import chart
from jaxlens.render.document import Block, Document, Findings, Picture, TableBlock
from jaxlens.render.graph.palette import line_hues
from jaxlens.render.graph.text_width import columns, shorten
from jaxlens.report import count, duration

_WIDTH, _LEFT, _RIGHT, _TOP, _ROW = 860.0, 150.0, 14.0, 26.0, 30.0
_BAR = 20.0  # height of a bar
_CHARACTER = 7.3  # width in pixels of a character of a chart's text
_MOST = 400  # bars of a lane
_LANES = 24
_THIN = 0.001  # least width of a bar: browsers draw none of width 0
_LEGEND = 8  # lines in the legend
_TEXT = 40  # lines of the text form

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
    """Returns the lanes; in text the order of dispatches and waits."""
    dispatches = count(facts.dispatched, "dispatch", "dispatches")
    alt = f"Lanes over time: {dispatches} and {count(facts.waits, 'wait')} of Python"
    devices = ", ".join(use.device for use in facts.devices)
    lanes = _lanes(facts)
    short = [name for name, events in lanes[:_LANES] if len(events) > _MOST]
    note = "Left to right: time. Colours are lines of yours: an execution has the colour of the "
    note += "line that dispatched it."
    # How many instructions there are is no fact of the program: a profiler may drop some
    note += f" Only the {_MOST} longest are drawn of: {', '.join(short)}." if short else ""
    return Picture(
        "Python and the device over time",
        f"{alt}; executions on {devices}" if devices else alt,
        _drawing(facts, lanes[:_LANES]),
        tuple(_text(facts)),
        note=note,
    )


def _lanes(facts: TimelineFacts) -> list[tuple[str, Sequence[_Event]]]:
    """Returns lanes from the top: Python's, copies, then each device's."""
    timeline = facts.timeline
    others: dict[str, list[_Event]] = {}
    for activity in timeline.activities:
        others.setdefault(activity.lane, []).append(activity)
    lanes: list[tuple[str, Sequence[_Event]]] = [
        (DISPATCHES, timeline.dispatches),
        (FLATTENS, others.pop(FLATTENS, [])),
        (WAITS, timeline.waits),
        (TO_DEVICE, others.pop(TO_DEVICE, [])),
        (FROM_DEVICE, others.pop(FROM_DEVICE, [])),
    ]
    for device in sorted({e.device for e in timeline.executions}):
        own = [e for e in timeline.executions if e.device == device]
        lanes.append((f"{device} {EXECUTES}", own))
        for lane in sorted(lane for lane in others if lane.startswith(f"{device} ")):
            lanes.append((lane, others.pop(lane)))
    return [lane for lane in (*lanes, *sorted(others.items())) if lane[1]]


def _drawing(facts: TimelineFacts, lanes: Sequence[tuple[str, Sequence[_Event]]]) -> str:
    """Returns the lanes as SVG; a page zooms them along time."""
    timeline = facts.timeline
    ends = [e.start + e.seconds for _, events in lanes for e in events]
    end = max([timeline.seconds, *ends]) or 1e-9
    scale = (_WIDTH - _LEFT - _RIGHT) / end
    hues = line_hues(use.line.place for use in facts.lines if use.line != ELSEWHERE)
    bottom = _TOP + _ROW * len(lanes)
    marks, labels, bars = list(_grid(end, scale, bottom)), [], []
    for number, (name, events) in enumerate(lanes):
        y = _TOP + number * _ROW + (_ROW - _BAR) / 2
        marks.append(chart.words(_LEFT - 8, y + 14, name, "text", "end"))
        marks.append(chart.line(_LEFT, y + _BAR, _WIDTH - _RIGHT, y + _BAR, "grid"))
        shown = nlargest(_MOST, events, key=lambda e: e.seconds)
        for event in sorted(shown, key=lambda e: e.start):
            place = (event.line or ELSEWHERE).place
            kind = chart.hue(hues[place]) if place in hues else "quiet"
            x, w = _LEFT + max(event.start, 0.0) * scale, max(event.seconds * scale, _THIN)
            line = place if place in hues else ""
            bars.append(chart.rect(x, y, w, _BAR, kind, tip=_tip(event), line=line, digits=3))
            label = shorten(_name(event), 24)
            if columns(label) * _CHARACTER + 8 <= w:
                labels.append(chart.words(x + 4, y + 14, label))
    x = _LEFT + timeline.seconds * scale
    bars.append(chart.line(x, _TOP, x, bottom, "hot"))
    side: chart.Anchor = "start" if x < _WIDTH / 2 else "end"
    labels.append(chart.words(x, _TOP - 9, "Python is done", "text", side))
    size = (_WIDTH - _LEFT - _RIGHT, bottom - _TOP)
    marks.append(chart.plot(_LEFT, _TOP, *size, end, bars, "seconds"))
    marks.append(chart.group("labels", labels))
    named = [use.line for use in facts.lines if use.line != ELSEWHERE][:_LEGEND]
    for number, owner in enumerate(named):
        top = bottom + 36 + 18 * number
        marks.append(chart.rect(_LEFT, top - 9, 14, 10, chart.hue(hues[owner.place])))
        marks.append(chart.words(_LEFT + 20, top, shorten(f"{owner.place}: {owner.text}", 90)))
    return chart.chart(_WIDTH, bottom + 30 + 18 * len(named), marks)


def _grid(end: float, scale: float, bottom: float) -> Iterator[str]:
    """Yields grid lines at quarters of the time, and their times."""
    ticks = []
    for part in range(5):
        x = _LEFT + end * part / 4 * scale
        side: chart.Anchor = "start" if not part else "end" if part == 4 else "middle"
        yield chart.line(x, _TOP, x, bottom, "grid")
        ticks.append(chart.words(x, bottom + 16, duration(end * part / 4), "dim", side))
    yield chart.group("ticks", ticks)


def _name(event: _Event) -> str:
    return event.name if isinstance(event, Activity) else event.program or "a program"


def _tip(event: _Event) -> str:
    """Returns name, time, kind, and line; a page shortens it in this order."""
    line = event.line or ELSEWHERE
    kinds = {Dispatch: "dispatched", Wait: "Python waits for it", Execution: "executed"}
    kind = event.lane if isinstance(event, Activity) else kinds[type(event)]
    text = f": {line.text}" if line.text else ""
    within = f", in {event.within}" if isinstance(event, Wait) and event.within else ""
    return f"{_name(event)}, {duration(event.seconds)}, {kind}, {line.place}{text}{within}"


def _text(facts: TimelineFacts) -> Iterator[str]:
    """Yields dispatches and waits in order, a pattern that repeats once with its count."""
    rows: list[tuple[str, ...]] = []
    for n, steps in facts.steps:
        for number, step in enumerate(steps):
            head = times(n) if not number else ""
            did = f"{step.kind} {step.program or 'the device'}"
            rows.append((head, step.line.place, did, shorten(step.line.text, 60)))
    shown = rows[:_TEXT]
    widths = [max((columns(row[i]) for row in shown), default=0) for i in range(3)]
    for row in shown:
        cells = (text + " " * (w - columns(text)) for text, w in zip(row, widths, strict=False))
        yield f"{'  '.join(cells)}  {row[3]}".rstrip()
    if len(rows) > _TEXT:
        yield f"{len(rows) - _TEXT:,} more steps are left out"
