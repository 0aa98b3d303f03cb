"""Reads LLVM IR text into a Module: a function is a Region, an instruction a Node.

A value keeps its `%`. A block has no region of its own: its label is the attribute `block`
of its instructions. `operands` are the values that an instruction reads; literals, labels
and globals stay in `text`. Several modules may follow one another, each beginning with
`; ModuleID`: where two of them define a function of the same name, the region of the second
is called `name (2)`.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from jaxlens.errors import ReadError
from jaxlens.ir.graph import Module, Node, Region, Type, Value, callers_first
from jaxlens.ir.hlo.text import closing, split

_NAME = r'[\w.$\-]+|"[^"]*"'
_DEFINE = re.compile(rf"define\s[^@\"]*@({_NAME})\(")
_LABEL = re.compile(rf"({_NAME}):\s*(?:;.*)?$")
_RESULT = re.compile(rf"%({_NAME})\s*=\s*")
_VALUE = re.compile(rf"%({_NAME})")
_NO_VALUE = re.compile(
    rf"\blabel\s+%(?:{_NAME})|,\s*%(?:{_NAME})\s*\]"
)  # a phi's second is a label
_CALLED = re.compile(rf"@({_NAME})\s*\(")
_COMMENT = re.compile(r"\s;")
_METADATA = re.compile(r",\s*![\w.]+\s+![\w.]+|,\s*!\w+$|\s#\d+$")
_STRUCT = re.compile(rf"%({_NAME})\s*=\s*type\b")
_GLOBAL = re.compile(r"[@!$#]|attributes\b|declare\b|;|module asm\b|uselistorder|\^")
_FACT = re.compile(r"(source_filename|target \w+)\s*=\s*(.*)")
_OPCODE = re.compile(r"(?:(?:tail|musttail|notail)\s+)?([a-z_]+)")

# Words between an opcode and the type of its operands, which is the type of its result.
_FLAGS = re.compile(
    r"(?:(?:nuw|nsw|exact|disjoint|nneg|samesign|fast|nnan|ninf|nsz|arcp|contract|afn|reassoc|"
    r"inbounds|atomic|volatile|fastcc|ccc|coldcc|noundef|nonnull|zeroext|signext|noalias|"
    r"(?:align|dereferenceable|range|nofpclass)\s*\([^)]*\)|align\s+\d+)\s+)*"
)
_CASTS = re.compile(r".*\sto\s(.+)")
_FIXED = {"getelementptr": "ptr", "alloca": "ptr"}


def read(text: str) -> Module:
    """Reads the text of a `.ll` file, or of several of them one after another.

    Raises:
        ReadError: The text defines no function.
    """
    reader = _Reader()
    for line in text.split("\n"):
        reader.line(line)
    return reader.module()


@dataclass(slots=True)
class _Function:
    """A function that is being read."""

    name: str
    unit: int
    parameters: tuple[Value, ...]
    nodes: list[tuple[Node, tuple[str, ...]]] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    block: str = ""


class _Reader:
    """State while the lines are read."""

    def __init__(self) -> None:
        self.unit = 0
        self.name = ""
        self.names: dict[tuple[int, str], str] = {}
        self.counts: Counter[str] = Counter()
        self.functions: list[_Function] = []
        self.open: _Function | None = None
        self.gathered: list[str] = []
        self.structs: set[str] = set()  # named types look like values where they are used
        self.attrs: dict[str, str] = {}
        self.unknown: list[str] = []

    def line(self, line: str) -> None:
        body = line.strip()
        if self.open is None:
            self._outside(body)
        elif body == "}" and line[0] == "}":
            self.open = None
            self.unknown += self.gathered
            self.gathered = []
        elif body and not body.startswith(";"):
            self._inside(body)

    def _outside(self, line: str) -> None:
        if line.startswith("; ModuleID"):
            self.unit += 1
            self.name = self.name or line.partition("=")[2].strip().strip("'")
        elif match := _DEFINE.match(line):
            self._begin(match, line)
        elif match := _FACT.match(line):
            self.attrs.setdefault(match[1], match[2])
        elif match := _STRUCT.match(line):
            self.structs.add(f"%{match[1]}")
        elif line and not _GLOBAL.match(line):
            self.unknown.append(line)

    def _begin(self, match: re.Match[str], line: str) -> None:
        written = match[1].strip('"')
        self.counts[written] += 1
        n = self.counts[written]
        name = written if n == 1 else f"{written} ({n})"
        self.names.setdefault((self.unit, written), name)
        end = closing(line, match.end() - 1)
        inside = line[match.end() : end - 1 if end > 0 else len(line)]
        parts = [part.rpartition("%") for part in split(inside)]
        parameters = (Value(f"%{n}", Type(_type(type_))) for type_, _, n in parts if type_)
        self.open = _Function(name, self.unit, tuple(parameters))
        self.functions.append(self.open)

    def _inside(self, line: str) -> None:
        """An instruction; `switch` and `indirectbr` take several lines."""
        function = self.open
        assert function is not None
        if not self.gathered and (label := _LABEL.match(line)):
            function.block = label[1].strip('"')
            return
        comment = _COMMENT.search(line, line.rfind('"') + 1)  # no quote stands in a comment
        self.gathered.append(line[: comment.start()].rstrip() if comment else line)
        if self.gathered[0].endswith("[") and not self.gathered[-1].startswith("]"):
            return
        whole = " ".join(self.gathered)
        self.gathered = []
        node_id = f"{function.name}/{len(function.nodes)}"
        node = _instruction(whole, node_id, function.block, self.structs)
        if node is None:
            self.unknown.append(whole)
            return
        called = tuple(name.strip('"') for name in _CALLED.findall(whole))
        function.nodes.append((node, called))
        if node.opcode == "ret":
            function.results += node.operands

    def module(self) -> Module:
        if not self.functions:
            raise ReadError("expected LLVM IR with a `define`, got none; read a whole .ll file")
        if self.open is not None:
            raise ReadError(
                f"the LLVM IR breaks off within function {self.open.name!r}; read a whole .ll file"
            )
        regions = {function.name: self._region(function) for function in self.functions}
        entry = self.functions[0].name
        regions = callers_first(regions, entry)
        return Module(self.name, "llvm", entry, regions, self.attrs, tuple(self.unknown))

    def _region(self, function: _Function) -> Region:
        nodes = tuple(
            replace(
                node, regions=tuple(n for c in called if (n := self.names.get((function.unit, c))))
            )
            for node, called in function.nodes
        )
        results = tuple(dict.fromkeys(function.results))
        return Region(function.name, function.parameters, nodes, results, "func")


def _instruction(line: str, node_id: str, block: str, structs: set[str]) -> Node | None:
    result = _RESULT.match(line)
    rest = line[result.end() :] if result else line
    opcode = _OPCODE.match(rest)
    if opcode is None:
        return None
    plain = _METADATA.sub("", rest)
    names = (f"%{name}" for name in _VALUE.findall(_NO_VALUE.sub("", plain)))
    reads = tuple(name for name in names if name not in structs)
    type_ = Type(_result_type(opcode[1], plain[opcode.end() :].strip()))
    results = (Value(f"%{result[1]}", type_),) if result else ()
    attrs: Mapping[str, str] = {"block": block} if block else {}
    return Node(node_id, opcode[1], reads, results, attrs, text=line)


def _result_type(opcode: str, rest: str) -> str:
    """The type as LLVM writes it; that of a comparison is derived, as LLVM omits it."""
    if opcode in _FIXED:
        return _FIXED[opcode]
    if opcode.endswith(("ext", "trunc", "toptr", "toint", "cast", "tofp", "toui", "tosi")):
        cast = _CASTS.match(rest)
        return cast[1].strip() if cast else "?"
    if opcode in ("icmp", "fcmp"):
        compared = _type(rest.split(None, 1)[-1] if " " in rest else rest)
        lanes = re.match(r"<(\d+ x) ", compared)
        return f"<{lanes[1]} i1>" if lanes else "i1"
    if opcode == "extractvalue":
        return "?"  # would need the struct's definition
    if opcode == "extractelement":
        element = re.match(r"<\d+ x (.+)>", _type(rest))
        return element[1] if element else "?"
    if opcode == "select":
        parts = split(rest)
        return _type(parts[1]) if len(parts) > 1 else "?"
    return _type(rest)


def _type(text: str) -> str:
    """The type at the head of a text."""
    start = _FLAGS.match(text)
    text = text[start.end() :] if start else text
    if text[:1] in "<[{":
        depth = 0
        for i, mark in enumerate(text):
            depth += (mark in "<[{(") - (mark in ">]})")
            if depth == 0:
                return text[: i + 1]
        return "?"
    word = re.match(r"[%\w.*]+", text)
    return word[0] if word else "?"
