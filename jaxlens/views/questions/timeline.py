"""The view of a run: findings, lanes of Python and the devices over time, and the tables."""

from collections.abc import Iterable, Iterator

from jaxlens.ir.run.timeline import CodeLine, Dispatch, Execution, Wait
from jaxlens.lenses.timeline.facts import ELSEWHERE, TimelineFacts
from jaxlens.lenses.timeline.report import report, times
from jaxlens.render import chart
from jaxlens.render.document import Block, Document, Findings, Picture, TableBlock
from jaxlens.render.graph.palette import line_hues
from jaxlens.render.graph.text_width import columns, shorten
from jaxlens.report import count, duration

_WIDTH, _LEFT, _RIGHT, _TOP, _ROW = 860.0, 132.0, 14.0, 26.0, 34.0
_BAR = 22.0  # height of a bar
_CHARACTER = 7.3  # width in pixels of a character of a chart's text
_MOST = 1_500  # bars of a lane
_LEGEND = 8  # lines in the legend
_TEXT = 40  # lines of the text form

_Event = Dispatch | Wait | Execution


def document(facts: TimelineFacts) -> Document:
    """Returns the document of a run."""
    waits = count(facts.waits, "wait")
    taken = f"timeline of the {facts.ran}: {count(facts.dispatched, 'dispatch', 'dispatches')}"
    answer = report(facts)
    blocks: list[Block] = [Findings(answer.findings)]
    if facts.lines:
        blocks.append(picture(facts))
    blocks += map(TableBlock, answer.tables)
    return Document("timeline", f"{taken}, {waits}", tuple(blocks))


def picture(facts: TimelineFacts) -> Picture:
    """Returns the lanes; in text the order of dispatches and waits."""
    dispatches = count(facts.dispatched, "dispatch", "dispatches")
    alt = f"Lanes over time: {dispatches} and {count(facts.waits, 'wait')} of Python"
    devices = ", ".join(use.device for use in facts.devices)
    return Picture(
        "Python and the device over time",
        f"{alt}; executions on {devices}" if devices else alt,
        _drawing(facts),
        tuple(_text(facts)),
        note="Left to right: time. Colours are lines of yours: an execution has the colour of the "
        "line that dispatched it.",
    )


def _drawing(facts: TimelineFacts) -> str:
    """Returns the lanes as SVG: Python's dispatches and waits, then the executions by device."""
    timeline = facts.timeline
    lanes: list[tuple[str, list[_Event]]] = [
        ("Python dispatches", list(timeline.dispatches)),
        ("Python waits", list(timeline.waits)),
    ]
    for device in sorted({e.device for e in timeline.executions}):
        own: list[_Event] = [e for e in timeline.executions if e.device == device]
        lanes.append((f"{device} executes", own))
    end = max([timeline.seconds, *(e.end for e in timeline.executions)]) or 1e-9
    scale = (_WIDTH - _LEFT - _RIGHT) / end
    hues = line_hues(use.line.place for use in facts.lines if use.line != ELSEWHERE)
    bottom = _TOP + _ROW * len(lanes)
    marks = list(_axis(end, scale, bottom))
    for number, (name, events) in enumerate(lanes):
        y = _TOP + number * _ROW + (_ROW - _BAR) / 2
        marks.append(chart.words(_LEFT - 8, y + 15, name, "text", "end"))
        marks.append(chart.line(_LEFT, y + _BAR, _WIDTH - _RIGHT, y + _BAR))
        for event in _drawn(events, scale):
            place = (event.line or ELSEWHERE).place
            kind = chart.hue(hues[place]) if place in hues else "quiet"
            x, w = _LEFT + max(event.start, 0.0) * scale, max(event.seconds * scale, 1.5)
            line = place if place in hues else ""
            marks.append(chart.rect(x, y, w, _BAR, kind, tip=_tip(event), line=line))
            program = shorten(event.program, 24)
            if columns(program) * _CHARACTER + 8 <= w:
                marks.append(chart.words(x + 4, y + 15, program))
    x = _LEFT + timeline.seconds * scale
    marks.append(chart.line(x, _TOP - 4, x, bottom, "hot"))
    side: chart.Anchor = "start" if x < _WIDTH / 2 else "end"
    marks.append(chart.words(x, _TOP - 9, "Python is done", "text", side))
    named = [use.line for use in facts.lines if use.line != ELSEWHERE][:_LEGEND]
    for number, owner in enumerate(named):
        top = bottom + 36 + 18 * number
        marks.append(chart.rect(_LEFT, top - 9, 14, 10, chart.hue(hues[owner.place])))
        marks.append(chart.words(_LEFT + 20, top, shorten(f"{owner.place}: {owner.text}", 90)))
    return chart.chart(_WIDTH, bottom + 30 + 18 * len(named), marks)


def _drawn(events: Iterable[_Event], scale: float) -> Iterator[_Event]:
    """Yields the events that are drawn: of those on the same half pixel only the first."""
    last: tuple[int, CodeLine | None] | None = None
    drawn = 0
    for event in events:
        at = int(event.start * scale * 2), event.line
        if at != last or event.seconds * scale > 1:
            yield event
            drawn += 1
        last = at
        if drawn >= _MOST:
            return


def _axis(end: float, scale: float, bottom: float) -> Iterator[str]:
    """Yields grid lines at quarters of the time."""
    for part in range(5):
        x = _LEFT + end * part / 4 * scale
        side: chart.Anchor = "start" if not part else "end" if part == 4 else "middle"
        yield chart.line(x, _TOP, x, bottom, "grid")
        yield chart.words(x, bottom + 16, duration(end * part / 4), "dim", side)


def _tip(event: _Event) -> str:
    line = event.line or ELSEWHERE
    program = event.program or "a program that is unknown"
    kinds = {Dispatch: "dispatches", Wait: "waits for", Execution: "execution of"}
    text = f": {line.text}" if line.text else ""
    return f"{kinds[type(event)]} {program}, {duration(event.seconds)}; {line.place}{text}"


def _text(facts: TimelineFacts) -> Iterator[str]:
    """Yields dispatches and waits in order, a pattern that repeats once with its count."""
    rows: list[tuple[str, ...]] = []
    for n, steps in facts.steps:
        for number, step in enumerate(steps):
            head = times(n) if not number else ""
            did = f"{step.kind} {step.program or 'the device'}"
            rows.append((head, step.line.place, did, shorten(step.line.text, 60)))
    shown = rows[:_TEXT]
    widths = [max(columns(row[i]) for row in shown) for i in range(3)]
    for row in shown:
        cells = (text + " " * (w - columns(text)) for text, w in zip(row, widths, strict=False))
        yield f"{'  '.join(cells)}  {row[3]}".rstrip()
    if len(rows) > _TEXT:
        yield f"{len(rows) - _TEXT:,} more steps are left out"
