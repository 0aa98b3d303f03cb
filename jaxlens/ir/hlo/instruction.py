"""A node of HLO text: name, opcode, operands and calls are read at once, the rest when asked for.

Reading a line in full costs about three times what it takes to find these four, and most of
a large program is never looked at that closely.
"""

import re

from jaxlens.ir.graph import Node, Span, Type, Value
from jaxlens.ir.hlo.frames import Frames, Told, origin
from jaxlens.ir.hlo.line import instruction_attributes
from jaxlens.ir.hlo.text import read_type
from jaxlens.ir.lazy import LazyFields
from jaxlens.ir.stamps import apart, unstamped

# A frozen dataclass assigns each field through a call; filling its slots takes half the time.
_set_name, _set_type = (vars(Value)[name].__set__ for name in ("name", "type"))
_set_scope, _set_spans, _set_stamps = (
    vars(Node)[name].__set__ for name in ("scope", "spans", "stamps")
)
_NOTHING: Told = "", (), ()
_BEFORE = ", metadata={op_name="
_PLAIN = re.compile(r'"([^"\\]*)"(?: stack_frame_id=(\d{1,9}))?\}')


class Instruction(LazyFields, Node):
    """A Node of which all but id, opcode, operands and regions is made when first read."""

    __slots__ = ("_frames", "_line", "said", "shape")
    _frames: Frames
    _line: str  # as printed, with stamps
    said: str | None  # what stands between operands and metadata; None where it is no plain text
    shape: str  # the type as printed
    _makers = {  # noqa: RUF012
        "text": lambda node: unstamped(node._line),
        "results": lambda node: _results(node),
        "attrs": lambda node: instruction_attributes(node.text),
        "scope": lambda node: _told(node)[0],
        "spans": lambda node: _told(node)[1],
        "stamps": lambda node: _told(node)[2],
    }


def _results(node: Instruction) -> tuple[Value, ...]:
    value: Value = object.__new__(Value)
    _set_name(value, node.id)
    _set_type(value, read_type(node.shape) or Type(node.shape))
    return (value,)


def _told(node: Instruction) -> Told:
    """Scope, frames and stamps, which are in one piece of the line: all are kept."""
    text, frames = node._line, node._frames
    quote = text.find('"')
    if quote >= 0 and text.endswith(_BEFORE, 0, quote):
        # What fusion copies keeps its metadata, so few texts of it differ.
        metadata = text[quote : text.find("}", quote)]
        told = frames.told.get(metadata)
        if told is None and (match := _PLAIN.match(text, quote)):
            scope, frame = match.groups()
            told = _read(scope, frames.stack(frame) if frame else (), frames)
            frames.told[metadata] = told
    else:
        told = None if "metadata=" in text else _NOTHING
    if told is None:
        told = _read(*origin(instruction_attributes(text).get("metadata", ""), frames), frames)
    _set_scope(node, told[0])
    _set_spans(node, told[1])
    _set_stamps(node, told[2])
    return told


def _read(scope: str, spans: tuple[Span, ...], frames: Frames) -> Told:
    if "_jl" not in scope:
        return scope, spans, ()
    words, paths = apart(scope)
    if len(paths) != 1 or paths[0][-1][0] != "s":
        paths = tuple(path for path in paths if path[-1].startswith("s"))
    return words, spans or frames.merged(scope, paths), paths


def printed(node: Instruction) -> str | None:
    """What a line says beside name, type, operands and metadata; None where it is not plain.

    Where there are no operands, what stands in their place is a part of it: a literal.
    """
    if node.operands or node.said is None:
        return node.said
    line = node._line
    start = line.find(f" {node.opcode}(")
    end = line.find(", metadata={", start)
    if end >= 0 and line.find("}", end) != len(line) - 1:
        return None
    return line[start : end if end >= 0 else None]


def stamped(node: Node) -> str:
    """`Node.text` of HLO with its stamps, where it was read from text: it takes no time."""
    return node._line if isinstance(node, Instruction) else node.text
