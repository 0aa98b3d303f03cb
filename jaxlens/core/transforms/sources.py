"""Source positions: every equation remembers the Python line that it was traced from.

An equation keeps the Python calls that were on the stack when it was recorded, and the names of the
scopes and transformations around it. When a transformation makes new equations from an old one,
they inherit its position (`at`). Importing this file makes the kernel's `observer` know all this.

In JAX: jax/_src/source_info_util.py. Positions within a line are those of PEP 657.
"""

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from jaxlib.mlir import ir

from jaxlens.core.kernel.interpreter import observer
from jaxlens.core.kernel.jaxpr import JaxprEqn
from jaxlens.core.kernel.run import named
from jaxlens.core.kernel.types import Setting

_CORE = Path(__file__).resolve().parent.parent
_OWN_FILES = {contextlib.__file__, *map(str, _CORE.rglob("*.py"))}
_MAX_FRAMES = 200  # of one stack: a user's recursion may be deep
Call = tuple[CodeType, int]  # a function's code, and the index of the instruction it is at


class SourceFrame(NamedTuple):
    """A position in a file: lines count from 1, columns from 0; None where Python has none."""

    file_name: str
    function_name: str
    start_line: int
    end_line: int | None
    start_column: int | None
    end_column: int | None


class Traceback(NamedTuple):
    """Calls in the form of JAX's tracebacks; compares by value."""

    calls: tuple[Call, ...]

    def raw_frames(self) -> tuple[list[CodeType], list[int]]:
        """Returns the code objects, innermost first, and the instruction index of each."""
        return [code for code, _ in self.calls], [offset for _, offset in self.calls]


class NameStack(tuple[str, ...]):
    """Named scopes and transformations (`jvp()`), outermost first; prints as JAX's do.

    A transformation encloses the name that follows it: `transpose(jvp(layer))/attention`.
    """

    __slots__ = ()

    def __str__(self) -> str:
        parts: list[str] = []
        for name in reversed(self):
            encloses = name.endswith("()") and parts
            parts.append(f"{name[:-1]}{parts.pop()})" if encloses else name)
        return "/".join(reversed(parts))


_NO_SCOPES = NameStack()


@dataclass(slots=True)
class SourceInfo:
    """Where an equation comes from.

    Attributes:
        calls: The running functions, innermost first, up to where tracing began.
        name_stack: The scopes and transformations around it.
    """

    calls: tuple[Call, ...]
    name_stack: NameStack = _NO_SCOPES

    @property
    def traceback(self) -> Traceback:
        """The calls, in the form of JAX's `source_info.traceback`."""
        return Traceback(self.calls)

    @property
    def frames(self) -> tuple[SourceFrame, ...]:
        """The positions in the user's files, innermost first."""
        return tuple(map(frame, self.calls))


def frame(call: Call) -> SourceFrame:
    """Returns the position of a call."""
    code, instruction = call
    line, end, column, end_column = _positions(code)[instruction // 2]
    name = code.co_qualname
    return SourceFrame(code.co_filename, name, line or code.co_firstlineno, end, column, end_column)


@lru_cache(maxsize=256)
def _positions(code: CodeType) -> tuple[tuple[int | None, int | None, int | None, int | None], ...]:
    return tuple(code.co_positions())


_inherited: ContextVar[SourceInfo | None] = ContextVar("inherited", default=None)
_scopes: ContextVar[NameStack] = ContextVar("scopes", default=_NO_SCOPES)
_depth: ContextVar[int] = ContextVar("depth", default=0)


def call_traced(f: Callable[..., Any], args: Iterable[Any], alone: bool = False) -> Any:
    """Calls a function that is traced, whose equations get their own positions and scopes.

    The frame of this function on the stack marks where tracing began.

    Args:
        f: The function.
        args: Its arguments.
        alone: Whether to leave out the lines that call the function: a jitted function is traced
            once and called from many lines.
    """
    depth = 1 if alone else _depth.get() + 1
    with Setting(_depth, depth), Setting(_inherited, None), Setting(_scopes, _NO_SCOPES):
        return f(*args)


def here() -> SourceInfo:
    """Returns the user's current position: the frames in no file of this package."""
    source, scopes = _inherited.get(), _scopes.get()
    if source is not None:
        return SourceInfo(source.calls, NameStack(scopes + source.name_stack)) if scopes else source
    calls: list[Call] = []
    remaining = _depth.get()  # nested traces whose calls are the equation's too
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(calls) < _MAX_FRAMES:
        code = frame.f_code
        if code is call_traced.__code__:
            remaining -= 1
            if remaining == 0:
                break
        elif code.co_filename not in _OWN_FILES:
            calls.append((code, frame.f_lasti))
        frame = frame.f_back
    return SourceInfo(tuple(calls), scopes)


def line() -> str:
    """Formats the user's current line: `cell.py:3 (f)`."""
    return place(here())


def place(source: SourceInfo) -> str:
    """Formats the innermost position that is in no installed library: `cell.py:3 (f)`."""
    frames = source.frames
    own = [frame for frame in frames if "site-packages" not in frame.file_name]
    for innermost in own or frames:
        file_name = Path(innermost.file_name).name
        return f"{file_name}:{innermost.start_line} ({innermost.function_name})"
    return "an unknown line"


def transposed(source: SourceInfo) -> SourceInfo:
    """Returns the position of the backward equations of a forward equation: the same line.

    Scopes that are around both are left out, since `here` adds them.
    """
    around, names = _scopes.get(), source.name_stack
    inner = names[len(around) :] if names[: len(around)] == around else names
    return SourceInfo(source.calls, NameStack(("transpose()", *inner)))


def at(source: SourceInfo) -> Setting:
    """Within it new equations inherit the position of an old one."""
    return Setting(_inherited, source)


@contextmanager
def named_scope(name: str) -> Iterator[None]:
    """Adds a name to the equations recorded inside; it reaches the compiled program."""
    with Setting(_scopes, NameStack((*_scopes.get(), name))):
        yield


# ---- in the compiled program --------------------------------------------------------------------


def locate(
    eqn: JaxprEqn, scopes: tuple[str, ...], cache: dict[Call, ir.Location]
) -> tuple[tuple[str, ...], ir.Location]:
    """Returns the scopes of an equation and its MLIR location, in JAX's form.

    Args:
        eqn: The equation.
        scopes: The scopes that its jaxpr is lowered in.
        cache: The locations of calls, which many equations share.
    """
    scopes = (*scopes, *eqn.source_info.name_stack)
    location = None
    for call in reversed(eqn.source_info.calls):
        if call not in cache:
            cache[call] = _location(frame(call))
        location = (
            cache[call] if location is None else ir.Location.callsite(cache[call], [location])
        )
    name = eqn.primitive.name
    if name == "jit":
        name = f"jit({eqn.params['name']})"
    return scopes, named(str(NameStack((*scopes, name))), location)


def _location(frame: SourceFrame) -> ir.Location:
    complete = frame.end_line is not None and frame.start_column is not None
    end = (frame.start_column, frame.end_line, frame.end_column) if complete else (0,)
    file = ir.Location.file(frame.file_name, frame.start_line, *end)
    return named(frame.function_name, file)


observer.here, observer.line, observer.at, observer.scope = here, line, at, named_scope
observer.transposed, observer.call, observer.locate = transposed, call_traced, locate
