"""A run in Chrome's trace event format, which Perfetto (ui.perfetto.dev) opens."""

from collections.abc import Iterable, Iterator
from typing import Any

from jaxlens.questions.timeline.events import (
    FLATTENS,
    FROM_DEVICE,
    TO_DEVICE,
    Activity,
    Dispatch,
    Execution,
    RunTimeline,
    Wait,
)

DISPATCHES, WAITS, EXECUTES = "Python dispatches", "Python waits", "executes"
"""Lanes; before the last stands its device."""
PYTHON, COPIES = "Python", "copies"
"""Groups of lanes: processes of the file. Each device is another."""
_GROUPS = {
    DISPATCHES: PYTHON,
    WAITS: PYTHON,
    FLATTENS: PYTHON,
    TO_DEVICE: COPIES,
    FROM_DEVICE: COPIES,
}
_UNNAMED = "a program"

_Event = Dispatch | Wait | Execution | Activity


def trace_events(timeline: RunTimeline) -> dict[str, Any]:
    """Returns a run as trace events: each with its start and duration in microseconds.

    `args` has the line ("cell 3:5") and its text. Events of one lane that overlap without one
    being inside the other are on several threads of the same name, as the format asks for.
    """
    lanes: dict[tuple[str, str], list[_Event]] = {}
    for lane, event in _laned(timeline):
        group = _GROUPS.get(lane) or lane.rpartition(" ")[0]
        lanes.setdefault((group, lane), []).append(event)
    events: list[dict[str, Any]] = []
    processes: dict[str, int] = {}
    thread = 0
    for (group, lane), found in lanes.items():
        if group not in processes:
            processes[group] = len(processes) + 1
            events.append(_named("process_name", processes[group], 0, group))
        pid = processes[group]
        for track in _tracks(found):
            thread += 1
            events.append(_named("thread_name", pid, thread, lane))
            events += (_complete(event, lane, pid, thread) for event in track)
    return {"displayTimeUnit": "ms", "traceEvents": events}


def _laned(timeline: RunTimeline) -> Iterator[tuple[str, _Event]]:
    yield from ((DISPATCHES, event) for event in timeline.dispatches)
    yield from ((WAITS, event) for event in timeline.waits)
    yield from ((f"{event.device} {EXECUTES}", event) for event in timeline.executions)
    yield from ((event.lane, event) for event in timeline.activities)


def _tracks(events: Iterable[_Event]) -> list[list[_Event]]:
    """Spreads events so that those of one track are apart, or one inside the other."""
    tracks: list[tuple[list[_Event], list[int]]] = []  # events, and the ends of the open ones
    for event in sorted(events, key=lambda e: (_times(e)[0], -_times(e)[1])):
        start, end = _times(event)
        for _, ends in tracks:
            while ends and ends[-1] <= start:
                ends.pop()
        fits = (track for track in tracks if not track[1] or end <= track[1][-1])
        if (found := next(fits, None)) is None:
            tracks.append(found := ([], []))
        found[0].append(event)
        found[1].append(end)
    return [track for track, _ in tracks]


def _times(event: _Event) -> tuple[int, int]:
    """Returns start and end in nanoseconds."""
    start = round(event.start * 1e9)
    return start, start + round(event.seconds * 1e9)


def _named(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def _complete(event: _Event, lane: str, pid: int, tid: int) -> dict[str, Any]:
    start, end = _times(event)
    args: dict[str, Any] = {}
    if event.line is not None:
        args = {"line": event.line.place, "text": event.line.text}
        args |= {"in_loop": True} if event.line.in_loop else {}
    name = event.name if isinstance(event, Activity) else event.program or _UNNAMED
    if isinstance(event, Wait) and event.within:
        args["within"] = event.within
    if isinstance(event, Dispatch):
        args |= {"compiling": event.compiling * 1e6} if event.compiling else {}
        args |= {"at_once": True} if event.at_once else {}
    return {
        "ph": "X",
        "name": name,
        "cat": lane,
        "ts": start / 1e3,
        "dur": (end - start) / 1e3,
        "pid": pid,
        "tid": tid,
        "args": args,
    }
