"""Facts of one run: which line dispatched what, which line waited, how busy the devices were."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jaxlens.questions.timeline.events import (
    Activity,
    CodeLine,
    Dispatch,
    Execution,
    RunTimeline,
    Wait,
)

ELSEWHERE = CodeLine("no line of yours", "")
_MOST = 0.5  # share of the time from which Python, or an idle device, is most of it
_LONGEST, _ALIKE = 200, 0.75  # dispatches of a pass, and share of all that the passes are
_LONG = 0.01  # seconds of Python's own from which a single dispatch is such


@dataclass(frozen=True, slots=True)
class LineUse:
    """What one line did.

    Attributes:
        line: The line; `ELSEWHERE` if it is unknown.
        dispatches: Number of dispatches by program.
        at_once: Number of those that were executed within the call.
        waits: How often Python waited there.
        waited_for: The programs that it waited for, those that are known.
        waiting: Seconds of these waits.
    """

    line: CodeLine
    dispatches: Mapping[str, int]
    at_once: int
    waits: int
    waited_for: tuple[str, ...]
    waiting: float


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """What one device did.

    Attributes:
        device: "CPU 0".
        executing: Seconds of execution while Python ran.
        after: Seconds of execution after Python was done.
    """

    device: str
    executing: float
    after: float


@dataclass(frozen=True, slots=True)
class TimelineFacts:
    """The facts of one run.

    Attributes:
        timeline: Dispatches, waits and executions, each with its time.
        ran: What was run: "cell", or "call of train".
        lines: What each line did, in order of the first dispatch or wait.
        devices: What each device did.
        most_queued: The most programs that were dispatched without a wait between them.
        behind: Number of dispatched programs that were not done when Python was.
        idle: Share of the time from the first dispatch to the end of the last wait in which a
            device executed nothing, on average over devices; None if unknown.
        python: Seconds of Python's own from one dispatch to the next, or for a single one in the
            run, without waits and compiles, and the share of the time in which a device executed
            nothing; None unless both are most of the time.
        repeated: The dispatches of loops that come again and again in the same order, by program,
            and how often they do; None where there are none.
    """

    timeline: RunTimeline
    ran: str
    lines: tuple[LineUse, ...] = ()
    devices: tuple[DeviceUse, ...] = ()
    most_queued: int = 0
    behind: int = 0
    idle: float | None = None
    python: tuple[float, float] | None = None
    repeated: tuple[Mapping[str, int], int] | None = None

    @property
    def dispatched(self) -> int:
        """Number of programs that were dispatched."""
        return len(self.timeline.dispatches)

    @property
    def waits(self) -> int:
        """How often Python waited for a device."""
        return len(self.timeline.waits)

    @property
    def waiting(self) -> float:
        """Seconds in which Python waited."""
        return sum(wait.seconds for wait in self.timeline.waits)

    @property
    def compiled(self) -> tuple[Dispatch, ...]:
        """The dispatches that compiled their program."""
        return tuple(d for d in self.timeline.dispatches if d.compiling)


def facts(timeline: RunTimeline, ran: str = "cell") -> TimelineFacts:
    """Returns the facts of a run.

    Args:
        timeline: What was recorded.
        ran: What was run, in the sentences.
    """
    done = Counter(e.program for e in timeline.executions if e.end <= timeline.seconds)
    called = Counter(d.program for d in timeline.dispatches)
    return TimelineFacts(
        timeline,
        ran,
        tuple(_lines(timeline)),
        tuple(_devices(timeline)),
        _most_queued(timeline),
        sum((called - done).values()) if timeline.executions else 0,
        _idle(timeline),
        _python(timeline),
        _repeated(timeline),
    )


def _lines(timeline: RunTimeline) -> Iterable[LineUse]:
    by_line: defaultdict[CodeLine, list[Dispatch | Wait]] = defaultdict(list)
    for event in _in_order(timeline):
        by_line[event.line or ELSEWHERE].append(event)
    for line, events in by_line.items():
        dispatches = [event for event in events if isinstance(event, Dispatch)]
        waits = [event for event in events if isinstance(event, Wait)]
        yield LineUse(
            line,
            Counter(dispatch.program for dispatch in dispatches),
            sum(dispatch.at_once for dispatch in dispatches),
            len(waits),
            tuple(dict.fromkeys(wait.program for wait in waits if wait.program)),
            sum(wait.seconds for wait in waits),
        )


def _in_order(timeline: RunTimeline) -> list[Dispatch | Wait]:
    return sorted((*timeline.dispatches, *timeline.waits), key=lambda event: event.start)


def _devices(timeline: RunTimeline) -> Iterable[DeviceUse]:
    last = max((e.end for e in timeline.executions), default=0.0)
    for device, own in by_device(timeline).items():
        during = busy(own, 0.0, timeline.seconds)
        yield DeviceUse(device, during, busy(own, timeline.seconds, last))


def busy(events: Iterable[Execution | Activity], low: float, high: float) -> float:
    """Returns the seconds in which an event goes on; what overlaps counts once."""
    seconds, reached = 0.0, low
    for event in sorted(events, key=lambda e: e.start):
        start, end = max(event.start, reached), min(event.end, high)
        if end > start:
            seconds += end - start
            reached = end
    return seconds


def _idle(timeline: RunTimeline) -> float | None:
    """Returns the share of time without execution; None without waits or executions."""
    low = min((event.start for event in _in_order(timeline)), default=0.0)
    return _idle_within(timeline, low, max((wait.end for wait in timeline.waits), default=0.0))


def _python(timeline: RunTimeline) -> tuple[float, float] | None:
    """Returns what Python takes for a dispatch, and how idle devices are, if that is the limit."""
    starts = [dispatch.start for dispatch in timeline.dispatches]
    if not starts or timeline.unknown:
        return None
    single = len(starts) == 1
    low, high = (0.0, timeline.seconds) if single else (starts[0], starts[-1])
    end = max([high, *(one.end for one in timeline.executions)]) if single else high
    idle = _idle_within(timeline, low, end)
    waiting = sum(min(wait.end, high) - wait.start for wait in timeline.waits if wait.start < high)
    compiling = sum(dispatch.compiling for dispatch in timeline.dispatches)
    own = high - low - waiting - compiling
    if idle is None or min(idle, own / (end - low)) < _MOST:
        return None
    if single and (compiling or own < _LONG):  # the time is that of tracing too, or is nothing
        return None
    return own / max(len(starts) - 1, 1), idle


def _idle_within(timeline: RunTimeline, low: float, high: float) -> float | None:
    devices = by_device(timeline).values()
    if not devices or high <= low:
        return None
    executing = sum(busy(events, low, high) for events in devices)
    return 1 - executing / len(devices) / (high - low)


def by_device(timeline: RunTimeline) -> dict[str, list[Execution]]:
    """Returns the executions of each device, by its name."""
    found: defaultdict[str, list[Execution]] = defaultdict(list)
    for execution in timeline.executions:
        found[execution.device].append(execution)
    return dict(sorted(found.items()))


def _repeated(timeline: RunTimeline) -> tuple[Mapping[str, int], int] | None:
    """Returns the shortest row of dispatches that most of those in loops repeat, and how often."""
    row = [(d.line, d.program) for d in timeline.dispatches if d.line and d.line.in_loop]
    for length in range(2, min(len(row) // 2, _LONGEST) + 1):
        last = reversed(range(length, len(row)))
        first = next((i + 1 for i in last if row[i] != row[i - length]), length)
        alike = len(row) - first + length
        if alike >= 2 * length and alike >= _ALIKE * len(row):
            return Counter(program for _, program in row[-length:]), alike // length
    return None


def _most_queued(timeline: RunTimeline) -> int:
    most = queued = 0
    for event in _in_order(timeline):
        queued = 0 if isinstance(event, Wait) else queued + (not event.at_once)
        most = max(most, queued)
    return most
