"""Reads dispatches, waits and executions from a profile of JAX's.

The names are those that XLA's runtime gives its events (jax 0.10.2 and 0.12.0.1): `PjitFunction(f)`
is a call of a compiled function, with `...Execute...` inside where it gives a program to a device;
`...Buffer::Await` is a pair of events around a wait for an array that is not ready, and none is
recorded for one that is; events with `hlo_op` are instructions that a device executes. On a GPU
(0.11.2) they have the `correlation_id` of the event that launched them, within the event of a
program's execution, which has a `run_id`; the kernels of a CUDA graph share one, and have the name
of the graph as their `hlo_op`. What a later version names otherwise is missing from the answer.
Other waits have events of ours (`WAIT`).
"""

import re
import warnings
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax

from jaxlens.questions.timeline.events import (
    FLATTENS,
    FROM_DEVICE,
    TO_DEVICE,
    Activity,
    CodeLine,
    Dispatch,
    Execution,
    RunTimeline,
    Wait,
)

MARK = "jaxlens timeline"
"""Name of the events by which the recorded thread and its clock are found."""
WAIT = "jaxlens wait"
"""Name of the events around reads of arrays that are not ready."""
SKIPPED = ("ThreadpoolListener", "end: ")
"""What the names of events begin with that are left out."""

_CALL = re.compile(r"PjitFunction\((.*)\)$", re.DOTALL)
_EXECUTE = re.compile(r"Executable::Execute|^Execute(Replicated|Sharded)")
_AWAIT = re.compile(r"Buffer::Await$")
_COMPILE = "backend_compile_and_load"
_HOST = (
    (re.compile(r"ParseArguments$"), FLATTENS),
    (re.compile(r"DevicePut|BufferFromHost|MemcpyH2D"), TO_DEVICE),
    (re.compile(r"np\.asarray\(jax|MemcpyD2H"), FROM_DEVICE),
)
_MOST = 100_000  # activities
_SLACK = 1e5  # nanoseconds by which a wait may end before the program's last event does


class ProfileEvent(NamedTuple):
    """One event of a profile, in nanoseconds."""

    name: str
    start: float
    end: float
    stats: Mapping[str, Any]


Lines = Iterable[tuple[str, str, list[ProfileEvent]]]
"""Name of the plane (a device, or the host), name of the line (a thread, a stream), events."""


@dataclass(frozen=True, slots=True)
class ThreadEvents:
    """What a profile holds, in nanoseconds of the profile's clock.

    Attributes:
        marks: Start of each mark, in order.
        dispatches: Calls that gave a program to a device, without lines.
        waits: Waits of the same thread, without lines and programs.
        executions: Executions on all devices, without lines.
        activities: What else is known of that thread and of the devices, without lines.
    """

    marks: tuple[float, ...] = ()
    dispatches: tuple[Dispatch, ...] = ()
    waits: tuple[Wait, ...] = ()
    executions: tuple[Execution, ...] = ()
    activities: tuple[Activity, ...] = ()


def read(data: bytes) -> ThreadEvents:
    """Reads a serialized profile; what it lacks is empty."""
    return read_lines(lines_of(data))


def lines_of(data: bytes) -> Lines:
    """Yields the lines of a serialized profile."""
    profiler: Any = jax.profiler
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of a class of the bindings
        for plane in profiler.ProfileData.from_serialized_xspace(data).planes:
            for line in plane.lines:
                events = [_event(e) for e in line.events if not e.name.startswith(SKIPPED)]
                yield plane.name, line.name, events


def _event(event: Any) -> ProfileEvent:
    start = float(event.start_ns)
    return ProfileEvent(event.name, start, start + float(event.duration_ns), dict(event.stats))


def read_lines(lines: Lines) -> ThreadEvents:
    """Reads the lines of a profile: of the host that of the thread with marks."""
    lines = list(lines)
    marked = (events for *_, events in lines if any(event.name == MARK for event in events))
    thread = _thread(next(marked, []))
    hosts = (events for plane, _, events in lines if not plane.startswith("/device:"))
    launches = {number: run for events in hosts for number, run in _launches(events)}
    runs: dict[tuple[str, str, Any], tuple[float, float]] = {}
    activities: list[Activity] = []
    for plane, name, events in lines:
        for key, event in _instructions(plane, name, events, launches):
            low, high = runs.get(key, (event.start, event.end))
            runs[key] = min(low, event.start), max(high, event.end)
        activities += _copies(plane, events)
    executions = (
        Execution(device, program, low, high - low)
        for (device, program, _), (low, high) in runs.items()
    )
    ordered = tuple(sorted(executions, key=lambda e: e.start))
    ends = sorted(e.end for e in ordered if not e.device.startswith("CPU"))
    waits, copies = _waits_of_copies(thread.activities, ends)
    return ThreadEvents(
        thread.marks,
        thread.dispatches,
        tuple(_outermost((*thread.waits, *waits))),
        ordered,
        tuple(sorted((*copies, *activities), key=lambda a: a.start)[:_MOST]),
    )


def _launches(events: Iterable[ProfileEvent]) -> Iterator[tuple[Any, Any]]:
    """Yields the launches of a thread, each with the number of the execution that it is part of."""
    run, end = None, 0.0
    for event in sorted(events, key=lambda e: (e.start, -e.end)):
        if "run_id" in event.stats and "hlo_op" not in event.stats:
            run, end = event.stats["run_id"], event.end
        elif "correlation_id" in event.stats and event.start < end:
            yield event.stats["correlation_id"], run


def _waits_of_copies(
    activities: Iterable[Activity], ends: Sequence[float]
) -> tuple[list[Wait], list[Activity]]:
    """Splits reads of arrays into the wait for a device and the copy after it.

    A read in which executions end has waited for the last of them, since a device executes in
    order. A CPU's profile has the wait itself.

    Args:
        activities: Those of Python's thread.
        ends: The ends of all executions on devices other than the CPU, in order.
    """
    waits, copies = list[Wait](), list[Activity]()
    for activity in activities:
        place = bisect_right(ends, activity.end) - 1
        if activity.lane == FROM_DEVICE and place >= 0 and ends[place] > activity.start:
            waits.append(Wait(activity.start, ends[place] - activity.start, None))
            activity = replace(activity, start=ends[place], seconds=activity.end - ends[place])
        copies.append(activity)
    return waits, copies


def _thread(events: Iterable[ProfileEvent]) -> ThreadEvents:
    """Reads the events of one thread, enclosing events before the enclosed."""
    marks: list[float] = []
    calls: list[tuple[ProfileEvent, list[ProfileEvent]]] = []  # with the events within each
    waits: list[Wait] = []
    activities: list[Activity] = []
    begun: dict[Any, float] = {}  # waits, by the number that both events of a pair have
    copied = 0.0
    for event in sorted(events, key=lambda e: (e.start, -e.end)):
        name, start, end, stats = event
        inside = bool(calls) and start < calls[-1][0].end
        if inside:
            calls[-1][1].append(event)
        if name == MARK:
            marks.append(start)
        elif not inside and (call := _CALL.match(name)):
            calls.append((event._replace(name=call[1]), []))
        elif _AWAIT.search(name):
            if "_p" in stats:
                begun[stats["_p"]] = start
            elif stats.get("_c") in begun:
                first = begun.pop(stats["_c"])
                waits.append(Wait(first, end - first, None))
                if activities:
                    activities[-1] = _without_wait(activities[-1], first, end)
        elif name == WAIT:
            waits.append(Wait(start, end - start, None))
        elif start >= copied and (lane := _lane(name)):  # a copy may enclose others of its kind
            copied = end
            activities.append(Activity(lane, name, start, end - start))
    dispatches = (
        Dispatch(
            call.name,
            call.start,
            call.end - call.start,
            None,
            sum(event.end - event.start for event in within if event.name == _COMPILE),
            any("hlo_op" in event.stats for event in within),
        )
        for call, within in calls
        if any(_EXECUTE.search(event.name) for event in within)
    )
    return ThreadEvents(tuple(marks), tuple(dispatches), tuple(waits), (), tuple(activities))


def _lane(name: str) -> str:
    """Returns the lane of an activity; "" for another event."""
    return next((lane for pattern, lane in _HOST if pattern.match(name)), "")


def _without_wait(activity: Activity, start: float, end: float) -> Activity:
    """Returns a read without a wait in it, which comes first."""
    if activity.lane != FROM_DEVICE or not activity.start <= start <= end <= activity.end:
        return activity
    return replace(activity, start=end, seconds=activity.end - end)


def _outermost(waits: Iterable[Wait]) -> Iterator[Wait]:
    """Yields waits in order, without those within others: a read may be recorded twice."""
    end = 0.0
    for wait in sorted(waits, key=lambda w: (w.start, -w.seconds)):
        if wait.start >= end:
            yield wait
            end = wait.end


def _instructions(
    plane: str, line: str, events: Iterable[ProfileEvent], launches: Mapping[Any, Any]
) -> Iterator[tuple[tuple[str, str, Any], ProfileEvent]]:
    """Yields a key of the execution with each instruction on a device.

    A device with a plane of its own (a GPU, a TPU) may have a line of whole programs.
    """
    whole = plane.startswith("/device:") and line == "XLA Modules"
    for event in events:
        if whole:
            name, run = event.name.partition("(")[0], (event.start, event.name)
            yield (_device(plane, event), name, run), event
        elif "hlo_op" in event.stats:
            number = event.stats.get("run_id", launches.get(event.stats.get("correlation_id")))
            program = str(event.stats.get("hlo_module", "")).partition("(")[0]
            if number is not None:
                yield (_device(plane, event), program, number), event


def _copies(plane: str, events: Iterable[ProfileEvent]) -> Iterator[Activity]:
    """Yields the copies that a device made."""
    for event in events if plane.startswith("/device:") else ():
        is_copy = "hlo_op" not in event.stats and "Memcpy" in event.name
        if is_copy and (lane := _lane(event.name)):
            yield Activity(lane, event.name, event.start, event.end - event.start)


def _device(plane: str, event: ProfileEvent) -> str:
    if plane.startswith("/device:"):
        return plane.removeprefix("/device:").replace(":", " ", 1)
    return f"CPU {event.stats.get('device_ordinal', 0)}"


def run_of(
    known: ThreadEvents, line_at: Callable[[float], CodeLine | None], origin: float, end: float
) -> RunTimeline:
    """Returns the run between two times, with lines, and with programs where waits are for one.

    Args:
        known: The events of the thread that ran it, and of the devices.
        line_at: Returns the user's line that was running at a time of the profile's clock.
        origin: When the run began.
        end: When Python was done; the devices may go on.
    """
    dispatches = tuple(replace(d, line=line_at(d.start)) for d in known.dispatches)
    waits = tuple(replace(w, line=line_at(w.start)) for w in known.waits)
    waits, executions = linked(dispatches, waits, known.executions)
    activities = (replace(a, line=line_at(a.start)) for a in known.activities)
    return RunTimeline(
        (end - origin) * 1e-9,
        tuple(_in_seconds(d, origin) for d in dispatches if origin <= d.start < end),
        tuple(_in_seconds(w, origin) for w in waits if origin <= w.start < end),
        tuple(_in_seconds(e, origin) for e in executions if e.end > origin),
        activities=tuple(_in_seconds(a, origin) for a in activities if a.start >= origin),
    )


def _in_seconds(event: Any, origin: float) -> Any:
    """Returns an event in seconds after the start of the run."""
    times: dict[str, float] = {
        "start": (event.start - origin) * 1e-9,
        "seconds": event.seconds * 1e-9,
    }
    if isinstance(event, Dispatch):
        times["compiling"] = event.compiling * 1e-9
    return replace(event, **times)


def linked(
    dispatches: Sequence[Dispatch], waits: Sequence[Wait], executions: Sequence[Execution]
) -> tuple[tuple[Wait, ...], tuple[Execution, ...]]:
    """Gives executions the name and line of their dispatch, and waits the program they waited for.

    On each device the executions of a program follow its dispatches in order. A wait was for the
    program whose execution ended last before it did.
    """
    by_name: defaultdict[str, list[Dispatch]] = defaultdict(list)
    for dispatch in reversed(dispatches):
        by_name[_plain(dispatch.program)].append(dispatch)
    queues: dict[tuple[str, str], list[Dispatch]] = {}  # by device and name, the next is last
    named: list[Execution] = []
    for execution in executions:
        key = execution.device, _plain(execution.program)
        if key not in queues:
            queues[key] = [*by_name[key[1]]]
        if queues[key] and queues[key][-1].start <= execution.start:
            made = queues[key].pop()
            named.append(replace(execution, program=made.program, line=made.line))
        else:  # dispatched elsewhere: another thread, before
            named.append(replace(execution, program=execution.program.removeprefix("jit_")))
    ends = sorted(named, key=lambda e: e.end)

    def waited_for(wait: Wait) -> str:
        last = bisect_right(ends, wait.end + _SLACK, key=lambda e: e.end) - 1
        return ends[last].program if last >= 0 and ends[last].end >= wait.start else ""

    return tuple(replace(w, program=waited_for(w)) for w in waits), tuple(named)


def _plain(name: str) -> str:
    """Returns what the names of a function and of its module share: "jit__lambda", "<lambda>"."""
    return re.sub(r"[\W_]", "", re.sub(r"^jit[_(]", "", name))
