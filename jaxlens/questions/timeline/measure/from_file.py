"""Opens a profile that JAX's profiler wrote elsewhere.

`jax.profiler.trace` writes an XSpace (`.xplane.pb`). Of Python it has the calls of compiled
functions, without lines, and of waits only those for a value that is read, such as `float(x)`.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from jaxlens.errors import OptionError, ReadError, first_line
from jaxlens.questions.timeline.events import UNKNOWN_LINE, Activity, Execution, RunTimeline
from jaxlens.questions.timeline.measure import read_profile
from jaxlens.questions.timeline.measure.read_profile import Lines, ProfileEvent
from jaxlens.reading import read_file

_CALL = "PjitFunction("
_MOST = 1 << 30  # bytes of a file
_KINDS = "a .xplane.pb file of JAX's profiler"
_ELSEWHERE = "lines, and waits in block_until_ready: a profile of JAX's does not have them"
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
    if not path.name.lower().endswith(".xplane.pb"):
        raise OptionError(f"timeline opens {_KINDS}; got {path.name!r}")
    try:
        return _of_lines(read_profile.lines_of(read_file(path, _MOST)))
    except FileNotFoundError:
        raise OptionError(f"timeline opens {_KINDS}; there is no file {path.name!r}") from None
    except ReadError as error:
        raise ReadError(f"{path.name}: {error}") from None
    except Exception as error:  # what a damaged file raises is any error
        why = getattr(error, "strerror", None) or first_line(error)
        reason = f"{type(error).__name__}: {why}"
        raise ReadError(f"{path.name} cannot be read as a profile ({reason})") from None


def _of_lines(found: Lines) -> RunTimeline:
    lines = list(found)
    main = max((events for *_, events in lines), key=_calls, default=[])
    main = main if _calls(main) else []
    known = read_profile.read_lines(lines, lambda events: events is main)
    if not (known.dispatches or known.executions or known.activities):
        raise ReadError("it has no event of a program that JAX ran")
    events: tuple[ProfileEvent | Execution | Activity, ...]
    events = (*main, *known.executions, *known.activities)
    origin, end = min(e.start for e in events), max(e.end for e in main or events)
    run = read_profile.run_of(known, lambda time: UNKNOWN_LINE, origin, end)
    return replace(run, unknown=_ELSEWHERE if main else _NO_CALLS, some_waits=True)


def _calls(events: Iterable[ProfileEvent]) -> int:
    return sum(event.name.startswith(_CALL) for event in events)
