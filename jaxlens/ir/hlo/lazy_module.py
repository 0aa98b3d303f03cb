"""A Module of HLO text whose computations and instructions are read when first looked at.

XLA begins a computation in the first column with a line that ends in `{`, ends it with `}` in
the first column, and indents what is between, so computations are found without reading their
instructions (`find_blocks`). Of an instruction, name, opcode, operands, calls and metadata are read
at once; type and attributes, of which few are looked at, when asked for.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from jaxlens.ir.graph import Node, Region, Type, Value
from jaxlens.ir.hlo.frames import Frames, Metadata, origin
from jaxlens.ir.hlo.text import CALLS, LITERALS, attributes, instruction_attributes, read_type
from jaxlens.ir.lazy import LazyFields
from jaxlens.ir.stamps import unstamped

HEADER = re.compile(
    r'^[ \t]*+(ENTRY[ ])?[ \t]*+%?([^\s"(){}\[\]=,]++)[ \t]*+((?:\([^"\n]*)?)\{[ \t\r]*$',
    re.MULTILINE,
)
_UNUSUAL = (" \n", "\t", "\r", "{\n")  # in a body or behind it
_ODD = re.compile(r"\n(?:[^ \n]| *[}\t\r])")
_WITH_PERCENT = re.compile(r"=(?:%([\w.\-]+)|\{(%[^{}\n]*)\})")
_WITHOUT = re.compile(rf"(?:{'|'.join(CALLS)})=(?:%?([\w.\-]+)|\{{([^{{}}\n]*)\}})")
_NAME = re.compile(r"[\w.\-]+")
# A frozen dataclass assigns each field through a call; filling its slots takes half the time.
_set_name, _set_type = (vars(Value)[name].__set__ for name in ("name", "type"))
_set_scope, _set_spans, _set_stamps = (
    vars(Node)[name].__set__ for name in ("scope", "spans", "stamps")
)
_NOTHING: Metadata = "", (), ()
# No loop computes these itself. XLA gives what a pass made in a body without metadata, such as
# `gemv-rewriter` a dot, the metadata of the loop, which says nothing of it.
_NEVER_A_LOOP = frozenset({"dot", "convolution"})
_LOOP = "/while"
_METADATA = ", metadata={"
BEFORE_NAME = f"{_METADATA}op_name="


@dataclass(frozen=True, slots=True)
class Block:
    """A computation whose instructions were not read.

    Attributes:
        name: Its name.
        entry: Whether it is the ENTRY.
        text: Its first line and its instructions.
        start: Position of its first instruction's line.
        calls: Names of the computations that it calls; a name in a string may be among them.
    """

    name: str
    entry: bool
    text: str
    start: int
    calls: tuple[str, ...]


def find_blocks(text: str, start: int, blocks: dict[str, Block]) -> list[tuple[Block, str]] | None:
    """The computations from a position on, each with the text after its closing brace.

    Args:
        text: A module.
        start: The position.
        blocks: Computations that were found before, by text; gets these too.

    Returns:
        None where the text is not laid out as XLA prints it.
    """
    found: list[tuple[Block, str]] = []
    pos = start
    while pos < len(text):
        if text[pos] == "\n":
            pos += 1
            continue
        close = text.find("\n}", pos)
        whole = text[pos:close]
        block = blocks.get(whole)
        if block is None:
            block = _block(whole) if close > 0 else None
            if block is None:
                return None
            blocks[whole] = block
        end = text.find("\n", close + 1)
        end = len(text) if end < 0 else end
        footer = text[close + 2 : end]
        if footer and any(mark in f"{footer}\n" for mark in _UNUSUAL):
            return None
        found.append((block, footer.strip(" ,")))
        pos = end
    distinct = len({block.name for block, _ in found}) == len(found)
    return found if distinct and sum(block.entry for block, _ in found) == 1 else None


def _block(text: str) -> Block | None:
    """Reads the first line of a computation; None where it is not laid out as XLA prints it."""
    first, newline, _ = text.partition("\n")
    header = HEADER.fullmatch(first)
    if header is None or text[0] == " " or first[-1] != "{" or "\t" in first:
        return None
    if _ODD.search(text, len(first)) or (newline and text[-1] in " {"):
        return None
    if any(text.find(mark, len(first)) >= 0 for mark in _UNUSUAL):
        return None
    called = (_WITH_PERCENT if "%" in header[0] else _WITHOUT).finditer(text, len(first))
    names = (name for match in called for name in _NAME.findall(match[1] or match[2] or ""))
    return Block(header[2], bool(header[1]), text, len(first) + 1, tuple(dict.fromkeys(names)))


class Computation(LazyFields, Region):
    """A Region whose parameters, nodes and results are read when first looked at.

    Attributes:
        unknown: Its lines that cannot be parsed.
        _read: Reads it: the region, and those lines.
    """

    __slots__ = ("_read", "unknown")
    unknown: tuple[str, ...]
    _read: Callable[[], tuple[Region, tuple[str, ...]]]
    _makers = {  # noqa: RUF012
        "parameters": lambda region: _fill(region).parameters,
        "nodes": lambda region: _fill(region).nodes,
        "results": lambda region: _fill(region).results,
        "unknown": lambda region: _fill(region).unknown,
        "constants": lambda _: 0,  # a jaxpr's
    }


def _fill(region: Computation) -> Computation:
    """Reads the computation and sets all fields: who uses one uses the others."""
    whole, unknown = region._read()
    for name in ("parameters", "nodes", "results"):
        object.__setattr__(region, name, getattr(whole, name))
    object.__setattr__(region, "unknown", unknown)
    return region


class Instruction(LazyFields, Node):
    """A Node whose text, results and attributes are made when first read."""

    __slots__ = ("_frames", "_line", "said", "shape")
    _frames: Frames
    _line: str  # as printed, with stamps
    said: str | None  # what stands between operands and metadata; None where it is no plain text
    shape: str  # the type as printed
    _makers = {  # noqa: RUF012
        "text": lambda node: unstamped(node._line),
        "results": lambda node: _results(node),
        "attrs": lambda node: _attributes(node),
        "scope": lambda node: _metadata(node)[0],
        "spans": lambda node: _metadata(node)[1],
        "stamps": lambda node: _metadata(node)[2],
        "modules": lambda _: (),  # an equation's
    }

    def came_from(self, metadata: Metadata) -> Metadata:
        """Fills scope, frames and stamps."""
        if self.opcode in _NEVER_A_LOOP and metadata[0].endswith(_LOOP):
            metadata = _NOTHING
        _set_scope(self, metadata[0])
        _set_spans(self, metadata[1])
        _set_stamps(self, metadata[2])
        return metadata


def _attributes(node: Instruction) -> dict[str, str]:
    """Reads the attributes; words that many instructions share are read once."""
    line, said = node._line, node.said
    if said is None:
        return instruction_attributes(node.text)
    key = LITERALS.get(node.opcode)
    start = line.find(f" {node.opcode}(") + len(node.opcode) + 2
    values = {key: line[start : line.find(")", start)]} if key else {}
    values.update(_shared(said))
    quote = line.find('"')
    behind = unstamped(line[quote - len(BEFORE_NAME) :]) if quote >= 0 else ""
    if behind.startswith(_METADATA):
        named = behind.find('"', len(BEFORE_NAME) + 1) if behind.startswith(BEFORE_NAME) else 0
        end = behind.find("}", named) + 1
        values.setdefault("metadata", behind[len(_METADATA) - 1 : end])
        behind = behind[end:]
    for key, value in _shared(behind).items() if behind else ():
        values.setdefault(key, value)
    return values


@lru_cache(maxsize=4096)
def _shared(said: str) -> Mapping[str, str]:
    return attributes(said)


def _results(node: Instruction) -> tuple[Value, ...]:
    value: Value = object.__new__(Value)
    _set_name(value, node.id)
    _set_type(value, read_type(node.shape) or Type(node.shape))
    return (value,)


def _metadata(node: Instruction) -> Metadata:
    """Fills scope, frames and stamps, which are printed in one place, from a line of any form."""
    printed = instruction_attributes(node._line).get("metadata", "")
    return node.came_from(node._frames.metadata(*origin(printed, node._frames)))
