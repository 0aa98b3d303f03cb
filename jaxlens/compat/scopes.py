"""Name stacks and MLIR locations, which carry stamps and the names of modules."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from jaxlens.compat.extend import extend
from jaxlens.compat.import_private import private
from jaxlens.interrupts import uninterrupted


class _End(NamedTuple):
    """An element of a name stack that is printed last, however the stack is extended.

    A plain scope would change the text of transforms: `jvp(while)/body` would become
    `jvp(stamp)/while/body`, from which the original cannot be recovered.
    """

    name: str

    def wrap(self, parts: list[str]) -> None:
        """Inserts the name into the parts of the stack's text, which are in reverse order."""
        ends = next((i for i, part in enumerate(parts) if not part.startswith("_jl")), len(parts))
        parts.insert(ends, self.name)


def named_last() -> Callable[[Any, str], Any] | None:
    """Returns a function that appends a word to the name stack of an equation's source info.

    Gone: None; equations are not stamped.
    """
    new_source_info = extend("source_info_util", "new_source_info")
    new_name_stack = extend("source_info_util", "new_name_stack")

    def named(source: Any, word: str) -> Any:
        stack = source.name_stack
        return type(source)(source.traceback, type(stack)((*stack.stack, _End(word))))

    try:
        plain = new_source_info()
        outer = new_name_stack("f").transform("jvp")
        outer = named(plain.replace(name_stack=outer), "_jle1_").name_stack
        inner = new_name_stack("g")
        inner = named(plain.replace(name_stack=inner), "_jle2_").name_stack
        works = str(outer + inner) == "f/jvp(g)/_jle1_/_jle2_" and str(outer) == "f/jvp(_jle1_)"
    except (AttributeError, TypeError):
        return None
    return named if works else None


def scope_names(source: Any) -> Iterable[Any]:
    """Returns the parts of an equation's name stack, each hashable and with a `name`.

    Gone: never called, since `named_last` tests the same attribute first.
    """
    parts: Iterable[Any] = source.name_stack.stack
    return parts


class Called(NamedTuple):
    """An element of a name stack that names a called module. It is not printed."""

    name: str

    def wrap(self, parts: list[str]) -> None:
        """Adds nothing to the parts of the stack's text."""


def called_within(stack: Any) -> Iterator[str | Called]:
    """Yields the modules and the named scopes of a name stack, outermost first.

    Gone: nothing is yielded.
    """
    for part in getattr(stack, "stack", ()):
        if isinstance(part, Called):
            yield part
        elif type(part).__name__ == "Scope":
            yield str(part.name)


Calls = Callable[[int], tuple[tuple[str, ...], int]]


@uninterrupted
def naming(called: Calls, outermost: int) -> Iterator[None]:
    """Appends `Called` elements to the name stack of each equation that is traced in the block.

    JAX asks this thread's context for the name stack of each new equation, and of each scope that
    is entered; in the block that context computes it when asked.

    Args:
        called: Returns the modules that are being called, and an identity of the innermost, up to
            the identity that it is given.
        outermost: The identity of what lies around the block.

    Gone: nothing is appended.
    """
    local: Any = None
    with suppress(ImportError, AttributeError):
        local = private("source_info_util")._source_info_context
    before: Any = getattr(local, "context", None)
    if not hasattr(before, "replace") or not hasattr(before, "name_stack"):
        yield
        return
    try:
        local.context = _Context(type(before), before.name_stack, called, outermost)
        yield
    finally:
        local.context = before


class _Context:
    """Stands for JAX's `SourceInfo` without a traceback, as long as no equation is made of it."""

    __slots__ = ("_called", "_made", "_make", "_outer", "_stack")
    traceback = None

    def __init__(self, make: Any, stack: Any, called: Calls, outer: int) -> None:
        self._make, self._stack, self._called, self._outer = make, stack, called, outer
        self._made: dict[tuple[str, ...], Any] = {(): stack}

    @property
    def name_stack(self) -> Any:
        """The name stack at this moment; equal stacks are one object."""
        names, _ = self._called(self._outer)
        stack = self._made.get(names)
        if stack is None:
            parts = (*self._stack.stack, *map(Called, names))
            stack = self._made[names] = type(self._stack)(parts)
        return stack

    def replace(self, *, traceback: Any = None, name_stack: Any = None) -> Any:
        """Returns the source info of an equation, or the context within a scope."""
        if traceback is not None:
            return self._make(traceback, self.name_stack if name_stack is None else name_stack)
        _, innermost = self._called(self._outer)
        stack = self.name_stack if name_stack is None else name_stack
        return _Context(self._make, stack, self._called, innermost)
