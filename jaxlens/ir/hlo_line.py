"""One instruction of HLO text, whatever its form: cut into parts, its attributes read late."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from jaxlens.ir.hlo_text import attributes, closing, type_end

_RESULT = re.compile(r'[ \t]*(ROOT[ \t]+)?%?([^\s=()"{}\[\],]+)[ \t]*=[ \t]*')
_OPCODE = re.compile(r"\s*([A-Za-z][\w\-.]*)\(")
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


class Attributes(Mapping[str, str]):
    """The attributes of one instruction, read from its line when first looked at."""

    __slots__ = ("_found", "_line")

    def __init__(self, line: str) -> None:
        self._line = line
        self._found: dict[str, str] | None = None

    def _read(self) -> dict[str, str]:
        if self._found is None:
            parts = cut(self._line)
            found: dict[str, str] = {}
            if parts is not None:
                key = _OPERAND.get(parts.opcode)
                found = {key: parts.operands.strip()} if key else {}
                found |= attributes(parts.attributes)
            self._found = found
        return self._found

    def __getitem__(self, key: str) -> str:
        return self._read()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __repr__(self) -> str:
        return repr(self._read())
