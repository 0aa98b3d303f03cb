"""Where each step of a program came from, and a stream of the steps as they happen.

A jaxpr that has lost its Python lines teaches nothing. So every equation keeps the calls that were
on the stack when it was recorded, and the names of the transformations that it went through; where
a transformation makes new equations from an old one, they inherit its place. Whoever wants to
watch the machinery at work listens to the stream: it costs one test of a tuple when nobody does.

Python positions are those of PEP 657.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from jaxlens.core.avals import Setting

_OURS = {contextlib.__file__, *map(str, Path(__file__).resolve().parent.rglob("*.py"))}
_MANY = 200  # frames kept of one stack: user recursion has no end
Call = tuple[CodeType, int]  # a function's code and how far it had got


class Frame(NamedTuple):
    """A place in a file: lines count from 1, columns from 0; None where Python does not say."""

    file_name: str
    function_name: str
    start_line: int
    end_line: int | None
    start_column: int | None
    end_column: int | None


class Traceback(NamedTuple):
    """Calls in the form that JAX's tracebacks have; equal ones are equal."""

    calls: tuple[Call, ...]

    def raw_frames(self) -> tuple[list[CodeType], list[int]]:
        """The code objects, innermost first, and how far each had got."""
        return [code for code, _ in self.calls], [offset for _, offset in self.calls]


class NameStack(tuple[str, ...]):
    """Named scopes and transformations (`jvp()`), outermost first; prints as JAX's do.

    A transformation goes round the name that follows it: `transpose(jvp(layer))/attention`.
    """

    __slots__ = ()

    def __str__(self) -> str:
        found: list[str] = []
        for name in reversed(self):
            around = name.endswith("()") and found
            found.append(f"{name[:-1]}{found.pop()})" if around else name)
        return "/".join(reversed(found))


_BARE = NameStack()


@dataclass(slots=True)
class SourceInfo:
    """Where an equation came from.

    Attributes:
        calls: The functions that were running, innermost first, up to where tracing began.
        name_stack: The scopes and transformations that it was made in.
    """

    calls: tuple[Call, ...]
    name_stack: NameStack = _BARE

    @property
    def traceback(self) -> Traceback:
        """The calls, as JAX's `source_info.traceback` has them."""
        return Traceback(self.calls)

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The places in the user's files, innermost first."""
        return tuple(map(frame, self.calls))


def frame(call: Call) -> Frame:
    """The place of a call."""
    code, instruction = call
    line, end, column, end_column = _positions(code)[instruction // 2]
    name = code.co_qualname
    return Frame(code.co_filename, name, line or code.co_firstlineno, end, column, end_column)


@lru_cache(maxsize=256)
def _positions(code: CodeType) -> tuple[tuple[int | None, int | None, int | None, int | None], ...]:
    return tuple(code.co_positions())


_origin: ContextVar[SourceInfo | None] = ContextVar("origin", default=None)
_scopes: ContextVar[NameStack] = ContextVar("scopes", default=_BARE)
_depth: ContextVar[int] = ContextVar("depth", default=0)


def call_traced(f: Callable[..., Any], *args: Any) -> Any:
    """Calls the function that is traced: the calls above the outermost of these are not its own."""
    return f(*args)


def here() -> SourceInfo:
    """Where the user's program is now."""
    origin, scopes = _origin.get(), _scopes.get()
    if origin is not None:
        return SourceInfo(origin.calls, NameStack(scopes + origin.name_stack)) if scopes else origin
    calls: list[Call] = []
    left = _depth.get()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(calls) < _MANY:
        code = frame.f_code
        if code is call_traced.__code__:
            left -= 1
            if left == 0:
                break
        elif code.co_filename not in _OURS:
            calls.append((code, frame.f_lasti))
        frame = frame.f_back
    return SourceInfo(tuple(calls), scopes)


def line() -> str:
    """The user's line that is running, in words: `cell.py:3 (f)`."""
    return said(here())


def said(source: SourceInfo) -> str:
    """The innermost place of a step that is not in a library's file, in words."""
    frames = source.frames
    own = [frame for frame in frames if "site-packages" not in frame.file_name]
    for place in own or frames:
        return f"{Path(place.file_name).name}:{place.start_line} ({place.function_name})"
    return "an unknown line"


@contextmanager
def tracing(alone: bool = False) -> Iterator[None]:
    """While a function is traced: its steps come from its own lines and scopes.

    Args:
        alone: Whether they do not come from the calls of it too, since it has many.
    """
    depth = 1 if alone else _depth.get() + 1
    with Setting(_depth, depth), Setting(_origin, None), Setting(_scopes, _BARE):
        yield


def transposed(source: SourceInfo) -> SourceInfo:
    """Where the backward equations of a forward one come from: its line.

    They are made where the forward ones were, so what is around both is left to `here`.
    """
    around, names = _scopes.get(), source.name_stack
    rest = names[len(around) :] if names[: len(around)] == around else names
    return SourceInfo(source.calls, NameStack(("transpose()", *rest)))


def at(source: SourceInfo) -> Setting:
    """While an old equation is gone through again: new ones inherit its place."""
    return Setting(_origin, source)


@contextmanager
def named_scope(name: str) -> Iterator[None]:
    """Gives the equations recorded inside a name, which reaches the compiled program."""
    with Setting(_scopes, NameStack((*_scopes.get(), name))):
        yield


# ---- the stream -------------------------------------------------------------------------------


class Event(NamedTuple):
    """A step of the machinery.

    Attributes:
        kind: "bind" (a primitive is applied), "record" (an equation is written down), "rule" (a
            rule of a primitive is used), "trace" (a function is traced), "cache" (a program was
            looked up), "lower", "compile", "run".
        name: Of the primitive or function.
        detail: What the step was about, such as the interpreter, the equation, hit or miss.
    """

    kind: str
    name: str
    detail: dict[str, Any]


listeners: tuple[Callable[[Event], None], ...] = ()


@contextmanager
def listen(listener: Callable[[Event], None]) -> Iterator[None]:
    """Calls `listener` with each step that happens inside the `with`."""
    global listeners
    listeners = (*listeners, listener)
    try:
        yield
    finally:
        listeners = tuple(other for other in listeners if other is not listener)


def emit(kind: str, name: str, **detail: Any) -> None:
    """Tells the listeners. Who emits often asks `if sources.listeners` first."""
    for listener in listeners:
        listener(Event(kind, name, detail))
