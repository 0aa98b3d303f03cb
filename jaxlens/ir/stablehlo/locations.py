"""MLIR locations as scope and spans; JAX nests a name round a chain of call sites.

`loc("jit(f)/add"(callsite("g"("m.py":3:4 to :9) at "f"("m.py":7:1 to :6))))` is scope
"jit(f)/add" with the frames of g and f. Locations are shared: each is taken apart once.
"""

import re
from collections.abc import Callable
from typing import Any

from jaxlens.ir.graph import Span
from jaxlens.ir.spans import Frame, spans
from jaxlens.ir.stamps import apart, plain

_WHOLE = re.compile(r"p?jit\([^/]*\)$")
Place = tuple[str, tuple[Span, ...]]


def resolver(ir: Any) -> Callable[[Any], Place]:
    """Makes a function from a location to its scope, without stamps, and spans.

    Args:
        ir: The bindings' module.
    """
    known: dict[Any, Place] = {}
    name = ir.NameLoc
    stacks: dict[Any, tuple[Span, ...]] = {}

    def stack(location: Any) -> tuple[Span, ...]:
        """A stamped location is one op's alone, while many share the frames in it."""
        key = location.attr
        found = stacks.get(key)
        if found is None:
            found = stacks[key] = spans(_frames(location, ir))
        return found

    def resolve(location: Any) -> Place:
        if isinstance(location, name):  # nearly all, and a stamped one is no other op's
            return _named(apart(location.name_str)[0], stack(location.child_loc))
        key = location.attr
        place = known.get(key)
        if place is None:
            place = known[key] = _place(location, stack, ir)
        return place

    return resolve


def _place(location: Any, stack: Callable[[Any], tuple[Span, ...]], ir: Any) -> Place:
    scopes: list[str] = []
    frames: tuple[Span, ...] = ()
    parts = list(location.locations) if isinstance(location, ir.FusedLoc) else [location]
    for part in parts:
        if isinstance(part, ir.NameLoc):
            scopes.append(plain(part.name_str))
            part = part.child_loc
        frames = frames or stack(part)
    scopes = [scope for scope in dict.fromkeys(scopes) if scope]
    if len(scopes) == 1:
        return _named(scopes[0], frames)
    return ";".join(scopes), frames


def _named(scope: str, frames: tuple[Span, ...]) -> Place:
    if scope.endswith(")") and _WHOLE.match(scope):
        frames = ()  # made by the lowering and not by an equation: the stack is that of `lower()`
    return scope, frames


def _frames(location: Any, ir: Any) -> list[Frame]:
    """Innermost first. JAX repeats a frame where one call makes several ops: kept once."""
    frames: list[Frame] = []
    pending = [(location, "")]
    while pending:
        part, function = pending.pop()
        if isinstance(part, ir.CallSiteLoc):
            pending += [(part.caller, ""), (part.callee, "")]
        elif isinstance(part, ir.NameLoc):
            pending.append((part.child_loc, part.name_str))
        elif isinstance(part, ir.FusedLoc):
            pending.extend((inner, function) for inner in reversed(part.locations))
        elif isinstance(part, ir.FileLineColLoc):
            frame = _frame(part, function)
            if not frames or frames[-1] != frame:
                frames.append(frame)
    return frames


def _frame(part: Any, function: str) -> Frame:
    """Where more than one device takes part JAX leaves out the end, which then is the start."""
    line, column = part.start_line, part.start_col
    end_line, end_column = part.end_line, part.end_col
    if (end_line, end_column) <= (line, column):
        end_line, end_column = line, -1
    return part.filename, line, end_line, column, end_column, function
