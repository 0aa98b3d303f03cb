"""Reads dispatches, waits and executions from a profile of JAX's.

The names are those that XLA's runtime gives its events (jax 0.10.2 and 0.12.0.1): `PjitFunction(f)`
is a call of a compiled function, with `...Execute...` inside where it gives a program to a device;
`...Buffer::Await` is a pair of events around a wait for an array that is not ready, and none is
recorded for one that is; events with `hlo_op` are instructions that a device executes. What a later
version names otherwise is missing from the answer. Other waits have events of ours (`WAIT`).
"""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax

from jaxlens.ir.run.timeline import Dispatch, Execution, Wait

MARK = "jaxlens timeline"
"""Name of the events by which the recorded thread and its clock are found."""
WAIT = "jaxlens wait"
"""Name of the events around reads of arrays that are not ready."""

_CALL = re.compile(r"PjitFunction\((.*)\)$", re.DOTALL)
_EXECUTE = re.compile(r"Executable::Execute|^Execute(Replicated|Sharded)")
_AWAIT = re.compile(r"Buffer::Await$")
_COMPILE = "backend_compile_and_load"
_SKIPPED = ("ThreadpoolListener", "end: ")
_SLACK = 1e5  # nanoseconds by which a wait may end before the program's last event does


@dataclass(frozen=True, slots=True)
class ThreadEvents:
    """What a profile holds, in nanoseconds of the profile's clock.

    Attributes:
        marks: Start of each mark, in order.
        dispatches: Calls that gave a program to a device, without lines.
        waits: Waits of the same thread, without lines and programs.
        executions: Executions on all devices, without lines.
    """

    marks: tuple[float, ...] = ()
    dispatches: tuple[Dispatch, ...] = ()
    waits: tuple[Wait, ...] = ()
    executions: tuple[Execution, ...] = ()


@dataclass(slots=True)
class _Call:
    """A call of a compiled function that is being read."""

    name: str
    start: float
    end: float
    executes: bool = False
    at_once: bool = False
    compiling: float = 0.0


@dataclass(slots=True)
class _Thread:
    """The events of the recorded thread."""

    marks: list[float] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)


def read(data: bytes) -> ThreadEvents:
    """Reads a serialized profile; what it lacks is empty."""
    if not data:
        return ThreadEvents()
    profiler: Any = jax.profiler
    thread = _Thread()
    runs: dict[tuple[str, str, Any], list[float]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of a class of the bindings
        for plane in profiler.ProfileData.from_serialized_xspace(data).planes:
            for line in plane.lines:
                events = [e for e in line.events if not e.name.startswith(_SKIPPED)]
                own = any(e.name == MARK for e in events)
                if own:
                    thread = _thread(events)
                for key, start, end in _instructions(plane.name, line.name, events):
                    low, high = runs.setdefault(key, [start, end])
                    runs[key] = [min(low, start), max(high, end)]
    dispatches = (
        Dispatch(c.name, c.start, c.end - c.start, None, c.compiling, c.at_once)
        for c in thread.calls
        if c.executes
    )
    executions = (
        Execution(device, program, low, high - low)
        for (device, program, _), (low, high) in runs.items()
    )
    return ThreadEvents(
        tuple(thread.marks),
        tuple(sorted(dispatches, key=lambda d: d.start)),
        tuple(_outermost(thread.waits)),
        tuple(sorted(executions, key=lambda e: e.start)),
    )


def _thread(events: Iterable[Any]) -> _Thread:
    """Reads the events of one thread, enclosing events before the enclosed."""
    thread = _Thread()
    begun: dict[Any, float] = {}  # waits, by the number that both events of a pair have
    current = _Call("", 0.0, 0.0)
    for event in sorted(events, key=lambda e: (e.start_ns, -e.duration_ns)):
        name, start = event.name, float(event.start_ns)
        end = start + float(event.duration_ns)
        inside = start < current.end
        if name == MARK:
            thread.marks.append(start)
        elif (call := _CALL.match(name)) and not inside:
            current = _Call(call[1], start, end)
            thread.calls.append(current)
        elif _AWAIT.search(name):
            stats = dict(event.stats)
            if "_p" in stats:
                begun[stats["_p"]] = start
            elif stats.get("_c") in begun:
                first = begun.pop(stats["_c"])
                thread.waits.append(Wait(first, end - first, None))
        elif name == WAIT:
            thread.waits.append(Wait(start, end - start, None))
        elif inside and _EXECUTE.search(name):
            current.executes = True
        elif inside and name == _COMPILE:
            current.compiling += end - start
        elif inside and any(key == "hlo_op" for key, _ in event.stats):
            current.at_once = True
    return thread


def _outermost(waits: Iterable[Wait]) -> Iterator[Wait]:
    """Yields waits in order, without those within others: a read may be recorded twice."""
    end = 0.0
    for wait in sorted(waits, key=lambda w: (w.start, -w.seconds)):
        if wait.start >= end:
            yield wait
            end = wait.end


def _instructions(
    plane: str, line: str, events: Iterable[Any]
) -> Iterator[tuple[tuple[str, str, Any], float, float]]:
    """Yields a key of the execution, start and end of each instruction on a device.

    A device with a plane of its own (a GPU, a TPU) may have a line of whole programs.
    """
    device = plane.removeprefix("/device:").replace(":", " ", 1)
    if plane.startswith("/device:") and line == "XLA Modules":
        for event in events:
            key = device, event.name.partition("(")[0], (event.start_ns, event.name)
            yield key, float(event.start_ns), float(event.start_ns + event.duration_ns)
        return
    for event in events:
        stats = dict(event.stats)
        if "hlo_op" not in stats or "run_id" not in stats:
            continue
        name = device if plane.startswith("/device:") else f"CPU {stats.get('device_ordinal', 0)}"
        program = str(stats.get("hlo_module", "")).partition("(")[0]
        start = float(event.start_ns)
        yield (name, program, stats["run_id"]), start, start + float(event.duration_ns)


def linked(
    dispatches: Sequence[Dispatch], waits: Sequence[Wait], executions: Sequence[Execution]
) -> tuple[tuple[Wait, ...], tuple[Execution, ...]]:
    """Gives executions the name and line of their dispatch, and waits the program they waited for.

    On each device the executions of a program follow its dispatches in order. A wait was for the
    program whose execution ended last before it did.
    """
    taken: dict[tuple[str, str], int] = {}
    by_name: dict[str, list[Dispatch]] = {}
    for dispatch in dispatches:
        by_name.setdefault(_plain(dispatch.program), []).append(dispatch)
    named = [_of_dispatch(execution, by_name, taken) for execution in executions]
    ends = sorted(named, key=lambda e: e.end)
    return tuple(replace(w, program=_waited_for(w, ends)) for w in waits), tuple(named)


def _of_dispatch(
    execution: Execution,
    by_name: Mapping[str, Sequence[Dispatch]],
    taken: dict[tuple[str, str], int],
) -> Execution:
    plain = _plain(execution.program)
    queue = by_name.get(plain, ())
    index = taken.get((execution.device, plain), 0)
    if index >= len(queue) or queue[index].start > execution.start:
        name = re.sub(r"^jit_", "", execution.program)
        return replace(execution, program=name)  # dispatched elsewhere: another thread, before
    taken[execution.device, plain] = index + 1
    return replace(execution, program=queue[index].program, line=queue[index].line)


def _plain(name: str) -> str:
    """Returns what the names of a function and of its module share: "jit__lambda", "<lambda>"."""
    return re.sub(r"[\W_]", "", re.sub(r"^jit[_(]", "", name))


def _waited_for(wait: Wait, ends: Iterable[Execution]) -> str:
    program = ""
    for execution in ends:
        if execution.end > wait.end + _SLACK:
            break
        if execution.end >= wait.start:
            program = execution.program
    return program
