"""Finds the computations of HLO text as XLA prints it, without reading their instructions.

XLA begins a computation in the first column with a line that ends in `{`, ends it with `}` in
the first column, and indents what is between. Text that is laid out in any other way is left
to the reader of lines.
"""

import re
from dataclasses import dataclass

from jaxlens.ir.hlo.text import CALLS

HEADER = re.compile(
    r'^[ \t]*+(ENTRY[ ])?[ \t]*+%?([^\s"(){}\[\]=,]++)[ \t]*+((?:\([^"\n]*)?)\{[ \t\r]*$',
    re.MULTILINE,
)
_ODD = re.compile(r"\n(?:[^ \n]| *[}\t\r])")
_WITH_PERCENT = re.compile(r"=(?:%([\w.\-]+)|\{(%[^{}\n]*)\})")
_WITHOUT = re.compile(rf"(?:{'|'.join(CALLS)})=(?:%?([\w.\-]+)|\{{([^{{}}\n]*)\}})")
_NAME = re.compile(r"[\w.\-]+")


@dataclass(frozen=True, slots=True)
class Block:
    """Where a computation stands in the text.

    Attributes:
        name: Its name.
        entry: Whether it is the ENTRY.
        start: Where its first instruction's line begins.
        end: The position behind the last instruction's line.
        footer: What is printed behind its closing brace.
        calls: Names that it may call: all of them, and at times one that only looks like it.
    """

    name: str
    entry: bool
    start: int
    end: int
    footer: str
    calls: tuple[str, ...]


def find_blocks(text: str, start: int) -> list[Block] | None:
    """The computations from a position on; None where the text is not laid out as XLA does it."""
    if any(text.find(mark, start) >= 0 for mark in (" \n", "\t", "\r")):
        return None
    blocks: list[Block] = []
    pos = start
    while pos < len(text):
        if text[pos] == "\n":
            pos += 1
            continue
        end_of_line = text.find("\n", pos)
        header = HEADER.fullmatch(text, pos, end_of_line) if end_of_line > 0 else None
        close = text.find("\n}", end_of_line)
        if header is None or close < 0 or text[pos] == " " or _ODD.search(text, end_of_line, close):
            return None
        end = text.find("\n", close + 1)
        end = len(text) if end < 0 else end
        footer = text[close + 2 : end].strip(" ,")
        calls = _calls(text, end_of_line, close, percent="%" in header[0])
        blocks.append(Block(header[2], bool(header[1]), end_of_line + 1, close, footer, calls))
        pos = end
    names = {block.name for block in blocks}
    whole = len(names) == len(blocks) == text.count("{\n", start)
    return blocks if whole and sum(block.entry for block in blocks) == 1 else None


def _calls(text: str, start: int, end: int, *, percent: bool) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for match in (_WITH_PERCENT if percent else _WITHOUT).finditer(text, start, end):
        for name in _NAME.findall(match[1] or match[2] or ""):
            found[name] = None
    return tuple(found)
