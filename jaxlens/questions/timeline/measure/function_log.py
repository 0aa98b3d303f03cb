"""Which of the user's functions ran at a time, from the functions that a profile of JAX's names."""

import re
import sys
from bisect import bisect_right
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import jax

from jaxlens.questions.timeline.events import UNKNOWN_LINE, CodeLine
from jaxlens.questions.timeline.measure.read_profile import ProfileEvent

_FUNCTION = re.compile(r"\$(?P<file>.+):(?P<line>\d+) (?P<name>.+)")  # "$train.py:7 step"


class FunctionLog:
    """Answers which function ran at a time of one thread.

    A profile names files without their folders. A function in a file that has the name of one of
    JAX's or of Python's is taken for theirs, and the function that called it counts.

    Args:
        events: The events of the thread.

    Attributes:
        lines: The functions, by the profile's names for them.
    """

    def __init__(self, events: Iterable[ProfileEvent]) -> None:
        self.lines: dict[str, CodeLine] = {}
        self._changes: list[tuple[float, CodeLine]] = []
        running: list[tuple[float, CodeLine]] = []  # by their ends
        for event in sorted(events, key=lambda e: (e.start, -e.end)):
            if event.name in self.lines or self._is_users(event.name):
                self._end(running, event.start)
                running.append((event.end, self.lines[event.name]))
                self._changes.append((event.start, self.lines[event.name]))
        self._end(running, float("inf"))

    def at(self, time: float) -> CodeLine:
        """Returns the first line of the innermost function; `UNKNOWN_LINE` for none."""
        index = bisect_right(self._changes, time, key=lambda change: change[0]) - 1
        return self._changes[index][1] if index >= 0 else UNKNOWN_LINE

    def _is_users(self, name: str) -> bool:
        found = _FUNCTION.fullmatch(name)
        if found is None or found["file"].startswith("<frozen") or found["file"] in _libraries():
            return False
        place = f"{found['file']}:{found['line']}"
        self.lines[name] = CodeLine(place, f"in {found['name']}")
        return True

    def _end(self, running: list[tuple[float, CodeLine]], time: float) -> None:
        """Ends the functions that have ended at a time; those around them go on."""
        while running and running[-1][0] <= time:
            end, _ = running.pop()
            self._changes.append((end, running[-1][1] if running else UNKNOWN_LINE))


@cache
def _libraries() -> frozenset[str]:
    """Returns the names of JAX's and Python's files."""
    files = {path.name for path in Path(jax.__file__).parent.rglob("*.py")}
    return frozenset(files | {f"{name}.py" for name in sys.stdlib_module_names})
