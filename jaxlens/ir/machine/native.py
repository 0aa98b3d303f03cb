"""Reads machine code as text into a Module: a symbol is a Region, an instruction a Node.

Two forms are read. Disassembly: `name:` on a line of its own, then lines such as
`1f: vaddps ymm0, ymm1`, with the address in hexadecimal and perhaps the bytes after it. PTX:
`.entry` and `.func` bodies in braces. Other lines are unknown, but for blank ones and comments.
Nodes have no operands in the sense of the graph, since registers are written many times: what an
instruction names is its attribute `operands`.
"""

import re
from dataclasses import replace

from jaxlens.errors import ReadError
from jaxlens.ir.graph import Module, Node, Region, callers_first

_SYMBOL = re.compile(r"(?:[0-9a-fA-F]+\s+)?<?([^\s<>:;#]+)>?:\s*(?:[;#].*)?$")
_CODE = re.compile(
    r"(?:0x)?([0-9a-fA-F]+):\s+(?:(?:[0-9a-fA-F]{2}\s)+\s+)?([A-Za-z][\w.]*)(?:\s+(.*))?$"
)
_ENTRY = re.compile(
    r"(?:\.(?:visible|weak|extern)\s+)*\.(?:entry|func)\b(?:\s*\([^)]*\))?\s*([\w$.]+)"
)
_PTX = re.compile(r"(@!?%\w++\s++)?([a-z][\w.:]*+)(?:\s++(.*?))?;")
_PTX_LABEL = re.compile(r"(\$?[\w$]+):$")
_COMMENT = re.compile(r"//.*$")
_CALL = re.compile(r"[\w$.]+")


def read(text: str) -> Module:
    """Reads a disassembly or PTX.

    Raises:
        ReadError: The text has no symbol with an instruction.
    """
    ptx = re.search(r"^\s*\.version\s", text, re.MULTILINE) is not None
    reader = _Reader()
    for line in text.split("\n"):
        (reader.ptx if ptx else reader.code)(line.strip())
    return reader.module()


class _Reader:
    """State while the lines are read."""

    def __init__(self) -> None:
        self.name = ""
        self.label = ""
        self.symbols: dict[str, list[Node]] = {}
        self.attrs: dict[str, str] = {}
        self.unknown: list[str] = []

    def code(self, line: str) -> None:
        """One line of a disassembly."""
        if match := _CODE.match(line):
            if not self.name:
                self._begin("code")
            self._add(match[1], match[2], match[3] or "", line)
        elif match := _SYMBOL.match(line):
            self._begin(match[1])
        elif line and line[0] not in ";#":
            self.unknown.append(line)

    def ptx(self, line: str) -> None:
        """One line of PTX."""
        line = _COMMENT.sub("", line).strip()
        if match := _ENTRY.match(line):
            self._begin(match[1])
        elif (match := _PTX.match(line)) and self.name:
            self._add(str(len(self.symbols[self.name])), match[2], match[3] or "", line)
        elif match := _PTX_LABEL.match(line):
            self.label = match[1]
        elif line.startswith((".version", ".target", ".address_size")):
            key, _, value = line[1:].partition(" ")
            self.attrs[key] = value.strip()
        elif line and line[0] not in ".(){},":
            self.unknown.append(line)

    def _begin(self, name: str) -> None:
        self.label, n, written = "", 2, name
        while name in self.symbols:
            name, n = f"{written} ({n})", n + 1
        self.name, self.symbols[name] = name, []

    def _add(self, place: str, opcode: str, operands: str, line: str) -> None:
        attrs = {"operands": operands.strip()} if operands.strip() else {}
        if self.label:
            attrs["block"] = self.label
        node = Node(f"{self.name}/{place}", opcode, attrs=attrs, text=line)
        self.symbols[self.name].append(node)

    def module(self) -> Module:
        bodies = {name: tuple(map(self._called, nodes)) for name, nodes in self.symbols.items()}
        regions = {
            name: Region(name, (), body, (), "func") for name, body in bodies.items() if body
        }
        if not regions:
            raise ReadError("expected a disassembly or PTX, got no symbol with an instruction")
        entry = next(iter(regions))
        regions = callers_first(regions, entry)
        return Module(entry, "asm", entry, regions, self.attrs, tuple(self.unknown))

    def _called(self, node: Node) -> Node:
        """The node, with the symbols that it calls if it is a call."""
        operands = node.attrs.get("operands", "")
        if not node.opcode.startswith(("call", "bl")) or not operands:
            return node
        names = tuple(n for n in _CALL.findall(operands) if self.symbols.get(n))
        return replace(node, regions=names)
