"""What a function does beyond its own variables while it is traced: prints, globals, containers."""

import dis
import io
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

_NONE: Any = object()


class Outside:
    """What functions could change outside of themselves."""

    def __init__(self) -> None:
        self._bound: dict[int, tuple[CodeType, tuple[str, ...]]] = {}  # names made global

    def seen(self, frame: FrameType, variables: Mapping[str, Any]) -> dict[str, Any]:
        """What a function could change, each with a number that tells if it did.

        Globals that it binds by what they are bound to; containers that it reaches by length.

        Args:
            frame: The function.
            variables: Its variables, those of functions around it too.
        """
        code, known = frame.f_code, frame.f_globals
        stored = self._bound.get(id(code))
        if stored is None:
            found = (i.argval for i in dis.get_instructions(code) if i.opname == "STORE_GLOBAL")
            stored = self._bound[id(code)] = code, tuple(dict.fromkeys(found))
        outer: dict[str, Any] = {f"global {n}": id(known.get(n, _NONE)) for n in stored[1]}
        for name in code.co_names:
            _held(name, known.get(name), outer)
        for name in code.co_freevars:
            _held(name, variables.get(name), outer)
        return outer


def _held(name: str, value: Any, found: dict[str, Any]) -> None:
    """A container's length, by the method of the built-in type: a class may have its own."""
    for base in (list, dict, set):
        if issubclass(type(value), base):
            found[name] = base.__len__(value)


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """What differs, in words."""
    for name, size in now.items():
        if name in before and before[name] != size:
            if name.startswith("global "):
                yield f"{name} is bound anew"
            else:
                yield f"{name}: {before[name]} items before, {size} now"


class _Tee(io.TextIOBase):
    """Standard output that somebody listens to."""

    def __init__(self, out: Any, hear: Callable[[str], None]) -> None:
        self._out, self._hear = out, hear

    def write(self, text: str) -> int:
        self._hear(text)
        return int(self._out.write(text) or 0)

    def flush(self) -> None:
        self._out.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)


@contextmanager
def printing(hear: Callable[[str], None]) -> Iterator[None]:
    """Within it, what is written to standard output is heard too."""
    out = sys.stdout
    tee = _Tee(out, hear)
    sys.stdout = tee
    try:
        yield
    finally:
        if sys.stdout is tee:
            sys.stdout = out
