"""The view of a run: findings, lanes of Python and the devices over time, and the tables."""

from collections.abc import Iterator, Sequence

from jaxlens.questions.timeline.events import (
    FLATTENS,
    FROM_DEVICE,
    TO_DEVICE,
    Activity,
    Dispatch,
    Execution,
    Wait,
)
from jaxlens.questions.timeline.facts import ELSEWHERE, TimelineFacts
from jaxlens.questions.timeline.lanes import BARS, LANES, LaneBar, lanes_svg, lanes_text
from jaxlens.questions.timeline.report import report, times
from jaxlens.render.document import Block, Document, Findings, Picture, TableBlock
from jaxlens.render.graph.palette import line_hues
from jaxlens.render.graph.text_width import shorten
from jaxlens.report import count, duration

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
    short = [f'"{name}"' for name, events in lanes[:LANES] if len(events) > BARS]
    legend = "Left to right: time. Colours are lines of yours: an execution has the colour of the "
    legend += "line that dispatched it."
    note = f"Of {' and '.join(short)} the {BARS} longest are drawn." if short else ""
    return Picture(
        "Python and the device over time",
        f"{alt}; executions on {devices}" if devices else alt,
        _drawing(facts, lanes[:LANES]),
        tuple(_text(facts)),
        note=note,
        legend=legend,
    )


def _lanes(facts: TimelineFacts) -> list[tuple[str, Sequence[_Event]]]:
    """Returns lanes from the top: Python's, copies, then each device's."""
    timeline = facts.timeline
    others: dict[str, list[_Event]] = {}
    for activity in timeline.activities:
        others.setdefault(activity.lane, []).append(activity)
    lanes: list[tuple[str, Sequence[_Event]]] = [
        ("Python dispatches", timeline.dispatches),
        (FLATTENS, others.get(FLATTENS, [])),
        ("Python waits", timeline.waits),
        (TO_DEVICE, others.get(TO_DEVICE, [])),
        (FROM_DEVICE, others.get(FROM_DEVICE, [])),
    ]
    for device in sorted({e.device for e in timeline.executions}):
        own = [e for e in timeline.executions if e.device == device]
        lanes.append((f"{device} executes", own))
    return [lane for lane in lanes if lane[1]]


def _drawing(facts: TimelineFacts, lanes: Sequence[tuple[str, Sequence[_Event]]]) -> str:
    """Returns the lanes as SVG."""
    lines = [use.line for use in facts.lines if use.line != ELSEWHERE]
    return lanes_svg(
        [(name, [_bar(event) for event in events]) for name, events in lanes],
        line_hues(line.place for line in lines),
        {line.place: f"{line.place}: {line.text}".removesuffix(": ") for line in lines},
        (facts.timeline.seconds, "Python is done"),
    )


def _bar(event: _Event) -> LaneBar:
    place = (event.line or ELSEWHERE).place
    return LaneBar(event.start, event.seconds, place, _name(event), _tip(event))


def _name(event: _Event) -> str:
    return event.name if isinstance(event, Activity) else event.program or "a program"


def _tip(event: _Event) -> str:
    """Returns name, time, kind, and line; a page shortens it in this order."""
    line = event.line or ELSEWHERE
    kinds = {Dispatch: "dispatched", Wait: "Python waits for it", Execution: "executed"}
    kind = event.lane if isinstance(event, Activity) else kinds[type(event)]
    text = f": {line.text}" if line.text else ""
    return f"{_name(event)}, {duration(event.seconds)}, {kind}, {line.place}{text}"


def _text(facts: TimelineFacts) -> Iterator[str]:
    """Yields dispatches and waits in order, a pattern that repeats once with its count."""
    rows: list[tuple[str, ...]] = []
    for n, steps in facts.steps:
        for number, step in enumerate(steps):
            head = times(n) if not number else ""
            did = f"{step.kind} {step.program or 'the device'}"
            rows.append((head, step.line.place, did, shorten(step.line.text, 60)))
    yield from lanes_text(rows)
