"""Opens a profile that was recorded elsewhere: by JAX's profiler, or by a timeline.

`jax.profiler.trace` writes an XSpace (`.xplane.pb`) and the same as trace events (`.json.gz`). Of
Python it names the functions that began while it ran, each with its first line and the name of its
file, and of waits only those for a value that is read, such as `float(x)`.
"""

import gzip
import io
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from jaxlens.errors import OptionError, ReadError, first_line
from jaxlens.questions.timeline.events import RunTimeline
from jaxlens.questions.timeline.measure import read_profile
from jaxlens.questions.timeline.measure.function_log import FunctionLog
from jaxlens.questions.timeline.measure.read_profile import Lines, ProfileEvent
from jaxlens.questions.timeline.measure.record import in_seconds
from jaxlens.reading import parsed, read_file

_CALL, _AWAIT = "PjitFunction(", "Buffer::Await"
_MOST = 1 << 30  # bytes of a file, unpacked
_MOST_OBJECTS = 4 << 30  # bytes of memory of its events
_KINDS = "a .xplane.pb, .json or .json.gz file of JAX's profiler"
_ELSEWHERE = "lines, and waits in block_until_ready: a profile of JAX's does not have them"
_FUNCTIONS = (
    "which line of a function ran, and waits in block_until_ready: a profile of JAX's has the "
    "first line of each function that began while it was recorded"
)
_NO_PAIRS = "where Python waits: the file has not both ends of each wait"
_NO_CALLS = "what Python does: the profile has no call of a compiled function"


def of_file(path: Path) -> RunTimeline:
    """Returns the run that a file holds.

    Args:
        path: A file, or the folder that `jax.profiler.trace` wrote to: its newest profile.

    Raises:
        OptionError: There is no such file, or it is of another kind.
        ReadError: The file is damaged, or it is no profile of JAX.
    """
    if path.is_dir():
        found = (file for file in path.rglob("*.xplane.pb") if file.is_file())
        newest = max(found, key=lambda file: file.stat().st_mtime, default=None)
        if newest is None:
            raise OptionError(f"no .xplane.pb file in the folder {path.name!r}: give {_KINDS}")
        path = newest
    name = path.name.lower()
    if not name.endswith((".xplane.pb", ".json", ".json.gz")):
        raise OptionError(f"timeline opens {_KINDS}; got {path.name!r}")
    try:
        data = _content(path)
        if name.endswith(".xplane.pb"):
            return _of_lines(list(read_profile.lines_of(data)))
        held = parsed(data, _MOST_OBJECTS)
        return _of_lines(_of_events(held["traceEvents"] if isinstance(held, dict) else held))
    except FileNotFoundError:
        raise OptionError(f"timeline opens {_KINDS}; there is no file {path.name!r}") from None
    except ReadError as error:
        raise ReadError(f"{path.name}: {error}") from None
    except Exception as error:  # what a damaged file raises is any error
        why = getattr(error, "strerror", None) or first_line(error)
        reason = f"{type(error).__name__}: {why}"
        raise ReadError(f"{path.name} cannot be read as a profile ({reason})") from None


def _content(path: Path) -> bytes:
    data = read_file(path, _MOST)
    if path.suffix.lower() == ".gz":
        data = gzip.GzipFile(fileobj=io.BytesIO(data)).read(_MOST + 1)
    if len(data) > _MOST:
        raise ReadError("it is larger than 1 GiB: record a shorter run")
    return data


def _of_lines(found: Lines) -> RunTimeline:
    lines = list(found)
    main = max((events for *_, events in lines), key=_calls, default=[])
    main = main if _calls(main) else []
    known = read_profile.read_lines(lines, lambda events: events is main)
    if not (known.dispatches or known.executions or known.activities):
        raise ReadError("it has no event of a program that JAX ran")
    functions = FunctionLog(main)
    waits, executions = read_profile.linked(
        tuple(replace(d, line=functions.at(d.start)) for d in known.dispatches),
        tuple(replace(w, line=functions.at(w.start)) for w in known.waits),
        known.executions,
    )
    activities = read_profile.owned(known.activities, executions)
    spans = [(e.start, e.end) for e in main]
    spans += [(e.start, e.end) for e in executions]
    spans += [(e.start, e.end) for e in activities]
    origin = min(start for start, _ in spans)
    end = max(e.end for e in main) if main else max(end for _, end in spans)
    unpaired = not waits and any(e.name.endswith(_AWAIT) for e in main)
    named = _FUNCTIONS if functions.lines else _ELSEWHERE
    unknown = _NO_PAIRS if unpaired else named if main else _NO_CALLS
    return RunTimeline(
        (end - origin) * 1e-9,
        tuple(in_seconds(replace(d, line=functions.at(d.start)), origin) for d in known.dispatches),
        tuple(in_seconds(w, origin) for w in waits),
        tuple(in_seconds(e, origin) for e in executions),
        unknown,
        tuple(in_seconds(a, origin) for a in activities),
        some_waits=True,
    )


def _calls(events: Iterable[ProfileEvent]) -> int:
    return sum(event.name.startswith(_CALL) for event in events)


def _of_events(events: Iterable[dict[str, Any]]) -> Lines:
    """Yields the threads of trace events as lines of a profile."""
    names: dict[tuple[Any, Any], str] = {}
    threads: dict[tuple[Any, Any], list[ProfileEvent]] = {}
    for event in events:
        key = event.get("pid"), event.get("tid")
        if event.get("name") == "process_name":
            names[key[0], None] = str(event["args"]["name"])
        elif event.get("name") == "thread_name":
            names[key] = str(event["args"]["name"])
        elif event.get("ph") == "X" and not str(event["name"]).startswith(read_profile.SKIPPED):
            start, args = float(event["ts"]) * 1e3, event.get("args") or {}
            end = start + float(event.get("dur", 0)) * 1e3
            threads.setdefault(key, []).append(ProfileEvent(str(event["name"]), start, end, args))
    for key, found in threads.items():
        yield names.get((key[0], None), ""), names.get(key, ""), list(_paired(found))


def _paired(events: list[ProfileEvent]) -> Iterator[ProfileEvent]:
    """Numbers the events at both ends of a wait, whose numbers the format lacks.

    A thread that waits does nothing else, so its waits are one after the other. If one end is
    missing, no wait is known.
    """
    events = sorted(events, key=lambda event: event.start)
    whole = sum(event.name.endswith(_AWAIT) for event in events) % 2 == 0
    number = 0
    for event in events:
        if whole and event.name.endswith(_AWAIT):
            end = {"_c" if number % 2 else "_p": number // 2}
            event, number = event._replace(stats={**event.stats, **end}), number + 1
        yield event
