"""Source positions: every equation remembers the Python line that it was traced from.

An equation keeps the Python calls that were on the stack when it was recorded, and the names of the
scopes and transformations around it. When a transformation makes new equations from an old one,
they inherit its position (`at`). The kernel asks `UserProgram` for all this: see
`core/__init__.py`.

In JAX: jax/_src/source_info_util.py. Positions within a line are those of PEP 657.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from jaxlib.mlir import ir

from jaxlens.core.kernel.interpreter import UserCode
from jaxlens.core.kernel.jaxpr import JaxprEqn
from jaxlens.core.kernel.run import named
from jaxlens.core.kernel.types import setting
from jaxlens.core.transforms.errors import refusal

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

    def __str__(self) -> str:
        """Formats the innermost position that is in no installed library: `cell.py:3 (f)`."""
        frames = self.frames
        own = [frame for frame in frames if "site-packages" not in frame.file_name]
        for innermost in own or frames:
            path = Path(innermost.file_name)
            file_name = "cell" if path.parent.name.startswith("ipykernel_") else path.name
            return f"{file_name}:{innermost.start_line} ({innermost.function_name})"
        return "an unknown line"


def frame(call: Call) -> SourceFrame:
    """Returns the position of a call."""
    code, instruction = call
    line, end, column, end_column = _positions(code)[instruction // 2]
    name = code.co_qualname
    return SourceFrame(code.co_filename, name, line or code.co_firstlineno, end, column, end_column)


@lru_cache(maxsize=256)
def _positions(code: CodeType) -> tuple[tuple[int | None, int | None, int | None, int | None], ...]:
    return tuple(code.co_positions())


class _Around(NamedTuple):
    """What is around the next equation.

    Attributes:
        depth: The number of nested traces whose calls are the equation's too.
        scopes: The names.
        inherited: The position of the equation that it is made from.
    """

    depth: int = 0
    scopes: NameStack = _NO_SCOPES
    inherited: SourceInfo | None = None


_around: ContextVar[_Around] = ContextVar("around", default=_Around())  # noqa: B039 - immutable


@contextlib.contextmanager
def named_scope(name: str) -> Iterator[None]:
    """Adds a name to the equations recorded inside; it reaches the compiled program."""
    around = _around.get()
    with setting(_around, around._replace(scopes=NameStack((*around.scopes, name)))):
        yield


class UserProgram(UserCode):
    """What the kernel is told of the user's program."""

    scope = staticmethod(named_scope)
    refusal = staticmethod(refusal)

    def call(self, f: Callable[..., Any], args: Sequence[Any], alone: bool) -> Any:
        """Calls a function that is traced, whose equations get their own positions and scopes.

        The frame of this function on the stack marks where tracing began.

        Args:
            f: The function.
            args: Its arguments.
            alone: Whether to leave out the lines that call the function: a jitted function is
                traced once and called from many lines.
        """
        with setting(_around, _Around(1 if alone else _around.get().depth + 1)):
            return f(*args)

    def here(self) -> SourceInfo:
        """Returns the user's current position: the frames in no file of this package."""
        remaining, scopes, source = _around.get()
        if source is not None:
            scopes = NameStack(scopes + source.name_stack)
            if source.calls:  # else it is of JAX's library, and of the line that calls that
                return SourceInfo(source.calls, scopes)
        calls: list[Call] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and len(calls) < _MAX_FRAMES:
            code = frame.f_code
            if code is UserProgram.call.__code__:
                remaining -= 1
                if remaining == 0:
                    break
            elif code.co_filename not in _OWN_FILES:
                calls.append((code, frame.f_lasti))
            frame = frame.f_back
        return SourceInfo(tuple(calls), scopes)

    def at(self, source: SourceInfo, transposed: bool = False) -> Any:
        """Within it new equations inherit the position of an old one, or of its transpose.

        Scopes that are around both are left out of the latter, since `here` adds them.
        """
        around, names = _around.get(), source.name_stack
        if not source.calls and around.inherited:  # of JAX's library, in the place of an old one
            old = around.inherited
            source = SourceInfo(old.calls, NameStack(old.name_stack + names))
        if transposed:
            scopes = around.scopes
            inner = names[len(scopes) :] if names[: len(scopes)] == scopes else names
            source = SourceInfo(source.calls, NameStack(("transpose()", *inner)))
        return setting(_around, around._replace(inherited=source))

    def locate(
        self, eqn: JaxprEqn, scopes: tuple[str, ...], cache: dict[Call, ir.Location]
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
            inner = cache[call]
            location = inner if location is None else ir.Location.callsite(inner, [location])
        name = eqn.primitive.name
        if name == "jit":
            name = f"jit({eqn.params['name']})"
        return scopes, named(str(NameStack((*scopes, name))), location)


def _location(frame: SourceFrame) -> ir.Location:
    complete = frame.end_line is not None and frame.start_column is not None
    end = (frame.start_column, frame.end_line, frame.end_column) if complete else (0,)
    file = ir.Location.file(frame.file_name, frame.start_line, *end)
    return named(frame.function_name, file)
