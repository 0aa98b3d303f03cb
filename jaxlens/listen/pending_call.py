"""A call that JAX or the core is working on, before it becomes a frozen `CallEvent` of a log."""

from dataclasses import dataclass, field
from typing import Any, Literal

from jaxlens.compat.events import Stack
from jaxlens.ir.compile_log import (
    CacheLayer,
    CallEvent,
    CompileStep,
    KeyChange,
    KeyPart,
    Replication,
)
from jaxlens.ir.facts import Constant
from jaxlens.ir.graph import Span
from jaxlens.ir.spans import BOUNDARY, span
from jaxlens.keys.jax_key import JaxKey

# Attributes that a `CallEvent` has too.
_SAME = tuple(
    "function role line defined layer earlier parts thread under program bytes captured "
    "replicated transforms".split()
)
_UNNAMED = "a part of JAX's key that this lens has no name for"


@dataclass(slots=True, eq=False, weakref_slot=True)
class PendingCall:
    """One call; `ir.compile_log.CallEvent` documents the attributes that are not listed here.

    Attributes:
        begun: Kinds of the steps that have begun.
        token: Identifies the call among those that are running.
        key: Its key; None for a single op, and if JAX's key cannot be read.
        traced: Whether a Python function was traced (no inner cache hit).
        disk: Whether the persistent cache had its program: False if JAX wrote it there, None if JAX
            reported neither.
        others: Number of programs of its name in the persistent cache before its compile.
        disk_parts: The hashes of the parts of its key in the persistent cache, by JAX's name.
    """

    function: str
    role: Literal["user", "op"] = "user"
    line: Span | None = None
    defined: Span | None = None
    steps: list[CompileStep] = field(default_factory=list)
    begun: set[str] = field(default_factory=set)
    layer: CacheLayer = ""
    changes: tuple[KeyChange, ...] = ()
    earlier: int = 0
    parts: tuple[KeyPart, ...] = ()
    thread: str = ""
    under: str = ""
    program: str = ""
    token: tuple[str, int] | None = None
    key: JaxKey | None = None
    traced: bool = False
    disk: bool | None = None
    others: int | None = None
    disk_parts: dict[str, str] = field(default_factory=dict)
    bytes: int | None = None
    captured: tuple[Constant, ...] = ()
    replicated: tuple[Replication, ...] = ()
    transforms: tuple[str, ...] = ()

    def frozen(self, number: int) -> CallEvent:
        """Returns the call as frozen data."""
        changes = self.changes
        if self.traced and self.earlier and not changes:
            changes = (KeyChange("other", self.function, _UNNAMED),)
        same: dict[str, Any] = {name: getattr(self, name) for name in _SAME}
        return CallEvent(number=number, steps=tuple(self.steps), changes=changes, **same)


def calling_line(stack: Stack) -> Span | None:
    """Returns the innermost frame that is not JAX's."""
    line = next(filter(None, map(span, stack.frames)), None)
    return None if line is None or line.key == BOUNDARY else line


def user_line(stack: Stack) -> Span | None:
    """Returns the calling line: the innermost frame outside of libraries, else the innermost."""
    for line in filter(None, map(span, stack.frames)):
        if line.key == BOUNDARY:
            break
        if not line.library:
            return line
    return calling_line(stack)
