"""Source positions: every equation remembers the Python line that it was traced from.

An equation keeps the Python calls that were on the stack when it was recorded, and the names of the
scopes and transformations around it. When a transformation makes new equations from an old one,
they inherit its position (`at`). No result depends on all this: read on where you meet it.

In JAX: jax/_src/source_info_util.py. The calls are jaxlib's `Traceback`, as there.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import jaxlib
from jaxlib.xla_client import Traceback

from jaxlens.core.kernel.types import setting

_JAX = str(Path(jaxlib.__file__).parent.with_name("jax"))
_NOT_THE_USERS = str(Path(__file__).parents[1]), _JAX


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


@dataclass(slots=True)
class SourceInfo:
    """Where an equation comes from.

    Attributes:
        traceback: The running functions, innermost first. None for an equation of JAX's library:
            what is made from it is of the line that calls the library.
        name_stack: The scopes and transformations around it.
    """

    traceback: Any
    name_stack: NameStack = NameStack()  # noqa: RUF009 - immutable

    def __str__(self) -> str:
        """Formats the innermost position that is in no installed library: `cell.py:3 (f)`."""
        every = self.traceback.frames if self.traceback else ()
        frames = [frame for frame in every if not frame.file_name.startswith(_NOT_THE_USERS)]
        own = [frame for frame in frames if "site-packages" not in frame.file_name]
        for innermost in own or frames:
            path = Path(innermost.file_name)
            file_name = "cell" if path.parent.name.startswith("ipykernel_") else path.name
            return f"{file_name}:{innermost.line_num} ({innermost.function_name})"
        return "an unknown line"


def user_file(code: CodeType) -> str | None:
    """Returns the file of a function; None if it is the core's or JAX's."""
    file = code.co_filename
    return None if file.startswith(_NOT_THE_USERS) else file


class _Around(NamedTuple):
    """What is around the next equation: names, and the position of the one it is made from."""

    scopes: NameStack = NameStack()
    inherited: SourceInfo | None = None


_NOTHING = _Around()
_around: ContextVar[_Around] = ContextVar("around", default=_NOTHING)


def here() -> SourceInfo:
    """Returns the position for a new equation; as text, the user's line."""
    scopes, source = _around.get()
    if source is None:
        return SourceInfo(Traceback.get_traceback(), scopes)
    traceback = source.traceback or Traceback.get_traceback()
    return SourceInfo(traceback, NameStack(scopes + source.name_stack))


def afresh() -> AbstractContextManager[None]:
    """Within it a function is traced, whose equations get their own positions and scopes."""
    return setting(_around, _NOTHING)


@contextmanager
def named_scope(name: str) -> Iterator[None]:
    """Adds a name to the equations recorded inside; it reaches the compiled program."""
    around = _around.get()
    with setting(_around, around._replace(scopes=NameStack((*around.scopes, name)))):
        yield


def at(source: SourceInfo, transposed: bool = False) -> AbstractContextManager[None]:
    """Within it new equations inherit the position of an old one, or of its transpose.

    Scopes that are around both are left out of the latter, since `here` adds them.
    """
    around, names = _around.get(), source.name_stack
    if source.traceback is None and around.inherited:  # of JAX's library, in place of an old one
        old = around.inherited
        source = SourceInfo(old.traceback, NameStack(old.name_stack + names))
    if transposed:
        scopes = around.scopes
        inner = names[len(scopes) :] if names[: len(scopes)] == scopes else names
        source = SourceInfo(source.traceback, NameStack(("transpose()", *inner)))
    return setting(_around, around._replace(inherited=source))
