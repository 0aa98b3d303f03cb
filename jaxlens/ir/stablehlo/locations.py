"""Reads MLIR locations as scope and spans; JAX nests a chain of call sites in a name.

`loc("jit(f)/add"(callsite("g"("m.py":3:4 to :9) at "f"("m.py":7:1 to :6))))` is scope
"jit(f)/add" with the frames of g and f. Locations are shared: each is read once.
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
    places: dict[Any, Place] = {}
    name = ir.NameLoc
    stacks: dict[Any, tuple[Span, ...]] = {}

    def stack(location: Any) -> tuple[Span, ...]:
        """The frames in a location: a stamped location belongs to one op, its frames to many."""
        key = location.attr
        frames = stacks.get(key)
        if frames is None:
            frames = stacks[key] = spans(_frames(location, ir))
        return frames

    def resolve(location: Any) -> Place:
        if isinstance(location, name):  # nearly all; a stamped one belongs to one op
            return _named(apart(location.name_str)[0], stack(location.child_loc))
        key = location.attr
        place = places.get(key)
        if place is None:
            place = places[key] = _place(location, stack, ir)
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
        frames = ()  # an op of the lowering itself, with the stack of the call of `lower()`
    return scope, frames


def _frames(location: Any, ir: Any) -> list[Frame]:
    """Frames, innermost first. JAX repeats a frame where one call makes several ops."""
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
            line, column = part.start_line, part.start_col
            end_line, end_column = part.end_line, part.end_col
            # With several devices JAX omits the end, which then equals the start.
            if (end_line, end_column) <= (line, column):
                end_line, end_column = line, -1
            frame = part.filename, line, end_line, column, end_column, function
            if not frames or frames[-1] != frame:
                frames.append(frame)
    return frames
