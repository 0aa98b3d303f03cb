"""Side effects of a function during tracing: prints, assigned globals, resized containers."""

import dis
import io
import sys
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FrameType
from typing import Any

from jaxlens.interrupts import uninterrupted

_NONE: Any = object()


class Outside:
    """Reads the state outside a function that its code could change."""

    def __init__(self) -> None:
        self._bound: dict[int, tuple[CodeType, tuple[str, ...]]] = {}  # names in STORE_GLOBAL

    def state(self, frame: FrameType, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the outside state that a function could change, by name.

        A global that it assigns has the id of its value; a container that it can reach has its
        length.

        Args:
            frame: Frame of the function.
            variables: Its local and closure variables.
        """
        code, outside = frame.f_code, frame.f_globals
        stored = self._bound.get(id(code))
        if stored is None:
            names = (i.argval for i in dis.get_instructions(code) if i.opname == "STORE_GLOBAL")
            stored = self._bound[id(code)] = code, tuple(dict.fromkeys(names))
        outer: dict[str, Any] = {f"global {n}": id(outside.get(n, _NONE)) for n in stored[1]}
        reachable: list[tuple[str, Any]] = [(name, outside.get(name)) for name in code.co_names]
        reachable += [(name, variables.get(name)) for name in code.co_freevars]
        for name, value in reachable:
            for base in (list, dict, set):
                if issubclass(type(value), base):
                    outer[name] = base.__len__(value)  # a subclass may override `__len__`
        return outer


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yields a sentence for each entry that differs."""
    for name, size in now.items():
        if name in before and before[name] != size:
            if name.startswith("global "):
                yield f"{name} is bound anew"
            else:
                yield f"{name}: {before[name]} items before, {size} now"


class _Tee(io.TextIOBase):
    """Wraps standard output, and passes the text written to a function."""

    def __init__(self, out: Any, hear: Callable[[str], None]) -> None:
        self._out, self._hear = out, hear

    def write(self, text: str) -> int:
        self._hear(text)
        return int(self._out.write(text) or 0)

    def flush(self) -> None:
        self._out.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)


@uninterrupted
def printing(hear: Callable[[str], None]) -> Iterator[None]:
    """Calls `hear` with the text that the block writes to standard output."""
    out = sys.stdout
    tee = _Tee(out, hear)
    sys.stdout = tee
    try:
        yield
    finally:
        if sys.stdout is tee:
            sys.stdout = out
