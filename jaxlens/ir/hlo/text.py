"""The grammar of HLO text up to one line: brackets, types, attributes, an instruction's parts.

HLO text nests brackets and quotes to any depth, and a name or a backend's configuration may
hold anything within quotes. Everything here is one scan from left to right over tokens of
interest, so that broken text costs no more than sound text.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from jaxlens.ir.graph import Type

# A quote that is never closed runs to the end: otherwise each quote after it would be tried.
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[(){}\[\],]', re.DOTALL)
_BREAK = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[(){}\[\] ]', re.DOTALL)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_OPERAND = re.compile(r'[^\s()"{}\[\],=]+')
_NAME = re.compile(r"[\w.\-]+")
_ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([^\[\]]*)\](.*)", re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r"}

CALLS = tuple(
    "calls to_apply condition body branch_computations true_computation false_computation "
    "called_computations select scatter".split()
)
"""Attributes whose value names computations that the instruction calls."""

RESULT = re.compile(r'[ \t]*(ROOT[ \t]+)?%?([^\s=()"{}\[\],]+)[ \t]*=[ \t]*')
_OPCODE = re.compile(r"\s*([A-Za-z][\w\-.]*)\(")
# The start of an instruction; an attribute has no space before its `=`.
_BEGINS = re.compile(r'(?<!ROOT)\s(?=(?:ROOT\s+)?%?[^\s=()"{}\[\],]++\s+=\s)')
_COMMENTED = re.compile(r'("[^"\\]*(?:\\.[^"\\]*)*"?)|/\*.*?\*/|//.*', re.DOTALL)
LITERALS = {"parameter": "index", "constant": "literal"}

# A mesh's devices, printed behind it with a comma that no bracket is around.
_CONTINUED = frozenset({"device_ids"})
_DEEPEST = 200  # tuples in tuples; Type prints itself recursively, and no program comes near


def closing(text: str, start: int) -> int:
    """The position after the bracket that closes the one at `start`; -1 for none."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        mark = text[token.start()]
        if mark in "({[":
            depth += 1
        elif mark in ")}]":
            depth -= 1
            if depth <= 0:
                return token.end()
    return -1


def balance(text: str) -> int:
    """Number of opening brackets minus that of closing ones, outside quotes."""
    depth = 0
    for token in _TOKEN.finditer(text):
        mark = text[token.start()]
        depth += (mark in "({[") - (mark in ")}]")
    return depth


def outside(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each stretch of text outside brackets and quotes."""
    depth = start = 0
    for token in _TOKEN.finditer(text):
        mark = text[token.start()]
        if depth <= 0:
            yield start, token.start()
        depth += (mark in "({[") - (mark in ")}]")
        start = token.end()
    if depth <= 0:
        yield start, len(text)


def split(text: str) -> list[str]:
    """Cuts at the commas that stand outside brackets and quotes."""
    parts, depth, start = [], 0, 0
    for token in _TOKEN.finditer(text):
        mark = text[token.start()]
        if mark in "({[":
            depth += 1
        elif mark in ")}]":
            depth -= 1
        elif mark == "," and depth <= 0:
            parts.append(text[start : token.start()].strip())
            start = token.end()
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def type_end(text: str, start: int) -> int:
    """The position of the space that ends the type which begins at `start`; -1 for none."""
    depth = 0
    for token in _BREAK.finditer(text, start):
        mark = text[token.start()]
        if mark in "({[":
            depth += 1
        elif mark in ")}]":
            depth -= 1
        elif mark == " " and depth <= 0:
            return token.start()
    return -1


def attributes(text: str) -> dict[str, str]:
    """Reads `key=value, key=value`; a part with no `=` is a key with an empty value.

    `slice={[0:1], [2:4]}` and the like keep their commas, as they stand in brackets.
    """
    values: dict[str, str] = {}
    plain = not any(mark in text for mark in '"({[')
    last = ""
    for part in text.split(", ") if plain else split(text):
        key, _, value = part.partition("=")
        key = key.strip()
        if key in _CONTINUED and values.get(last, "").startswith("mesh["):
            values[last] += f", {part}"
        elif part:
            values.setdefault(key, value.strip())
            last = key
    return values


def called(attrs: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the computations that attributes refer to, in printed order, with repeats."""
    names: list[str] = []
    for key, value in attrs.items():
        if key in CALLS and '"' not in value:
            names.extend(_NAME.findall(_COMMENT.sub("", value)))
    return tuple(names)


def operand_names(text: str) -> tuple[str, ...] | None:
    """Names in an operand list, of any form: `%a, %b`, `f32[2]{0} %a`, `/*index=5*/a`.

    Returns:
        The names without `%`; None where an operand is no name.
    """
    if "/*" in text:
        text = _COMMENT.sub("", text)
    names = tuple(part.rsplit(None, 1)[-1].removeprefix("%") for part in split(text))
    return names if all(map(_OPERAND.fullmatch, names)) else None


def unescape(text: str) -> str:
    """Undoes the C escapes of a quoted string: `\\'`, `\\n`, and UTF-8 as octal bytes."""
    if "\\" not in text:
        return text
    raw = _ESCAPE.sub(_byte, text.encode("utf-8", "surrogateescape"))
    return raw.decode("utf-8", "replace")


def unquote(text: str) -> str:
    """What a quoted string says; other text as it is."""
    quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return unescape(text[1:-1]) if quoted else text


def _byte(match: re.Match[bytes]) -> bytes:
    octal, hexadecimal, other = match.groups()
    if octal:
        return bytes([int(octal, 8) & 255])
    if hexadecimal:
        return bytes([int(hexadecimal, 16)])
    return _ESCAPED.get(other, other)


@lru_cache(maxsize=4096)
def read_type(text: str) -> Type | None:
    """Reads a type as HLO prints it.

    Arrays keep their layout as text (`{1,0:T(8,128)S(1)}`); a dimension that is bounded or
    unknown stays a string (`<=5`, `?`). A form unknown here is a type with its text as dtype.

    Returns:
        The type; None where tuples nest too deeply or a bracket is left open.
    """
    text = _COMMENT.sub("", text).strip() if "/*" in text else text.strip()
    open_tuples: list[list[Type]] = [[]]
    for part in _type_tokens(text):
        if part == "(":
            open_tuples.append([])
            if len(open_tuples) > _DEEPEST:
                return None
        elif part == ")":
            parts = open_tuples.pop()
            if not open_tuples:
                return None
            open_tuples[-1].append(Type("", parts=tuple(parts)))
        else:
            open_tuples[-1].append(_array(part))
    if len(open_tuples) != 1 or len(open_tuples[0]) != 1:
        return None
    return open_tuples[0][0]


def _type_tokens(text: str) -> Iterator[str]:
    """A tuple's brackets and the arrays between them; an array's own brackets stay in it."""
    depth, start = 0, 0
    for token in _TOKEN.finditer(text):
        mark = text[token.start()]
        inside = text[start : token.start()].strip()
        if depth == 0 and mark in "(),":
            if mark == "(" and inside:
                depth = 1  # a form such as b(f32[2]): kept whole
                continue
            if inside:
                yield inside
            if mark != ",":
                yield mark
            start = token.end()
        elif mark in "({[":
            depth += 1
        elif mark in ")}]":
            depth -= 1
    if rest := text[start:].strip():
        yield rest


@lru_cache(maxsize=4096)
def _array(text: str) -> Type:
    match = _ARRAY.fullmatch(text)
    if match is None:
        return Type(text)
    dtype, dims, layout = match.groups()
    shape = tuple(
        int(d) if d.isascii() and d.isdigit() else d for d in map(str.strip, dims.split(",")) if d
    )
    return Type(dtype, shape, layout)


@dataclass(frozen=True, slots=True)
class InstructionParts:
    """The parts of an instruction's line as text; `attributes` begins after the operands' comma."""

    root: bool
    name: str
    type: str
    opcode: str
    operands: str
    attributes: str


def cut(line: str) -> InstructionParts | None:
    """Splits a line of any form into its parts; None where it is no instruction."""
    result = RESULT.match(line)
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
    return InstructionParts(bool(result[1]), result[2], type_text, opcode[1], operands, rest)


def instructions(line: str) -> list[str]:
    """Splits a line into instructions: XLA prints one a line, and parses several."""
    if _BEGINS.search(line.lstrip()) is None:
        return [line]
    line = _COMMENTED.sub(lambda match: match[1] or " ", line)
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
    """The attributes as printed, after a parameter's number or a constant's literal."""
    parts = cut(line)
    if parts is None:
        return {}
    key = LITERALS.get(parts.opcode)
    literal = {key: parts.operands.strip()} if key else {}
    return literal | attributes(parts.attributes)
