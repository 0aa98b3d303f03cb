"""One line of HLO text, of whatever form, cut into an instruction's parts token by token."""

import re
from dataclasses import dataclass
from itertools import pairwise

from jaxlens.ir.hlo.text import attributes, closing, outside, type_end

_RESULT = re.compile(r'[ \t]*(ROOT[ \t]+)?%?([^\s=()"{}\[\],]+)[ \t]*=[ \t]*')
_OPCODE = re.compile(r"\s*([A-Za-z][\w\-.]*)\(")
# Where an instruction begins; what is named by an attribute has no space before its sign.
_BEGINS = re.compile(r'(?<!ROOT)\s(?=(?:ROOT\s+)?%?[^\s=()"{}\[\],]++\s+=\s)')
_COMMENT = re.compile(r'("[^"\\]*(?:\\.[^"\\]*)*"?)|/\*.*?\*/|//.*', re.DOTALL)
_OPERAND = {"parameter": "index", "constant": "literal"}


@dataclass(frozen=True, slots=True)
class Parts:
    """An instruction's line, cut but not read; `attributes` begins behind the operands' comma."""

    root: bool
    name: str
    type: str
    opcode: str
    operands: str
    attributes: str


def cut(line: str) -> Parts | None:
    """Cuts a line of any form; None where it is no instruction."""
    result = _RESULT.match(line)
    if result is None:
        return None
    behind = type_end(line, result.end())
    opcode = _OPCODE.match(line, behind) if behind > 0 else None
    if opcode is None:
        return None
    end = closing(line, opcode.end() - 1)
    if end < 0 or (line[end:].strip() and not line[end:].lstrip().startswith(",")):
        return None
    type_text, operands = line[result.end() : behind], line[opcode.end() : end - 1]
    rest = line[end:].strip().removeprefix(",")
    return Parts(bool(result[1]), result[2], type_text, opcode[1], operands, rest)


def instructions(line: str) -> list[str]:
    """The instructions on one line: XLA prints one, and reads as many as there are."""
    if _BEGINS.search(line.lstrip()) is None:
        return [line]
    line = _COMMENT.sub(lambda match: match[1] or " ", line)
    first = len(line) - len(line.lstrip())
    starts = [
        match.start()
        for start, end in outside(line)
        for match in _BEGINS.finditer(line, start, end)
        if match.start() > first
    ]
    edges = [0, *starts, len(line)]
    return [line[a:b].strip() for a, b in pairwise(edges)]


def instruction_attributes(line: str) -> dict[str, str]:
    """The attributes as printed; a parameter's number and a literal stand first."""
    parts = cut(line)
    if parts is None:
        return {}
    key = _OPERAND.get(parts.opcode)
    found = {key: parts.operands.strip()} if key else {}
    return found | attributes(parts.attributes)
