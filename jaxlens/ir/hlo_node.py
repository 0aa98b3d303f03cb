"""A node of HLO text: name, opcode, operands and calls are read at once, the rest when asked for.

Reading a line in full costs about three times what it takes to find these four, and most of
a large program is never looked at that closely.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from jaxlens.ir.graph import Node, Span, Type, Value
from jaxlens.ir.hlo_frames import Frames, origin
from jaxlens.ir.hlo_line import instruction_attributes
from jaxlens.ir.hlo_text import read_type
from jaxlens.ir.late import fill
from jaxlens.ir.stamps import plain, stamps, unstamped

# A frozen dataclass assigns each field through a call; filling its slots takes half the time.
_set_name, _set_type = (vars(Value)[name].__set__ for name in ("name", "type"))
Paths = tuple[tuple[str, ...], ...]
_BEFORE = ", metadata={op_name="
_PLAIN = re.compile(r'"([^"\\]*)"(?: stack_frame_id=(\d{1,9}))?\}')


class Instruction(Node):
    """A Node of which all but id, opcode, operands and regions is made when first read."""

    __slots__ = ("_frames", "_line", "_shape")
    _frames: Frames
    _line: str  # as printed, with stamps
    _shape: str

    def __getattr__(self, name: str) -> Any:
        return fill(self, name, _MAKERS)


def _results(node: Instruction) -> tuple[Value, ...]:
    value: Value = object.__new__(Value)
    _set_name(value, node.id)
    _set_type(value, read_type(node._shape) or Type(node._shape))
    return (value,)


def _scope(node: Instruction) -> str:
    return _told(node)[0]


def _spans(node: Instruction) -> tuple[Span, ...]:
    return _told(node)[1]


def _stamps(node: Instruction) -> Paths:
    return _told(node)[2]


def _told(node: Instruction) -> tuple[str, tuple[Span, ...], Paths]:
    """Scope, frames and stamps, which are in one piece of the line: all are kept."""
    scope, spans = _origin(node)
    paths = tuple(path for path in stamps(scope) if path[-1].startswith("s"))
    if "_jl" in scope:
        spans = spans or node._frames.merged(scope, paths)
        scope = plain(scope)
    object.__setattr__(node, "scope", scope)
    object.__setattr__(node, "spans", spans)
    object.__setattr__(node, "stamps", paths)
    return scope, spans, paths


def _origin(node: Instruction) -> tuple[str, tuple[Span, ...]]:
    text = node._line
    quote = text.find('"')
    if text.endswith(_BEFORE, 0, max(quote, 0)) and (plain := _PLAIN.match(text, quote)):
        scope, frame = plain.groups()
        return scope, node._frames.stack(frame) if frame else ()
    if "metadata=" not in text:
        return "", ()
    return origin(instruction_attributes(text).get("metadata", ""), node._frames)


_MAKERS: Mapping[str, Callable[[Instruction], object]] = {
    "text": lambda node: unstamped(node._line),
    "results": _results,
    "attrs": lambda node: instruction_attributes(node.text),
    "scope": _scope,
    "spans": _spans,
    "stamps": _stamps,
}
