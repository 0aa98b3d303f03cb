"""Finds the op of each line of printed StableHLO.

MLIR prints an op on one line, and its blocks on the lines after it, within braces; a reduction by
one op is printed on the line of the reduction. So the lines are walked together with the module
that was read from the same program, and the line of an op must begin with the names of the op's
results.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from jaxlens.errors import ReadError
from jaxlens.ir.graph import Module, Node
from jaxlens.ir.stablehlo.stamps import CLOSING

_FUNCTION = "func.func "


@dataclass(frozen=True, slots=True)
class PrintedLine:
    """A line and its op.

    Attributes:
        text: The line as printed, without its indentation.
        indent: Number of spaces before it.
        node: Id of the op that it begins, or whose blocks it opens, separates or closes; "" for
            none.
        begins: Whether the op begins on this line.
        inside: Id of the innermost op around it; "" outside all ops.
    """

    text: str
    indent: int
    node: str = ""
    begins: bool = False
    inside: str = ""


@dataclass(slots=True)
class _Block:
    """A block whose lines are being read."""

    nodes: Iterator[Node]
    owner: Node | None
    rest: Iterator[str]  # names of the owner's further blocks
    expected: Node | None = None
    unopened: Node | None = None

    def __post_init__(self) -> None:
        self.step()

    def step(self) -> None:
        self.expected = next(self.nodes, None)


def printed(text: str, module: Module) -> Iterator[PrintedLine]:
    """Every line of the text, in order.

    Args:
        text: A module as MLIR prints it, without locations.
        module: The module read from the same program.

    Raises:
        ReadError: The text is of another program.
    """
    blocks: list[_Block] = []
    for number, indented in enumerate(text.rstrip("\n").split("\n"), 1):
        line = indented.lstrip(" ")
        indent = len(indented) - len(line)
        inside = blocks[-1].owner if blocks else None
        owner = inside.id if inside else ""
        if not blocks:
            if _defines(line):
                region = module.regions.get(_symbol(line))
                if region is None:
                    raise _other(number, line)
                blocks.append(_Block(iter(region.nodes), None, iter(())))
            yield PrintedLine(line, indent)
        elif line.startswith("}"):
            _close(blocks, line, module, number)
            yield PrintedLine(line, indent, owner, False, owner)
        elif _begins(line, blocks[-1].expected):
            node = blocks[-1].expected
            assert node is not None
            blocks[-1].step()
            inner = _inner(node, module)
            blocks[-1].unopened = node if inner and not line.endswith("{") else None
            if inner and line.endswith("{"):
                _enter(blocks, node, iter(inner), module)
            yield PrintedLine(line, indent, node.id, True, owner)
        elif (node := blocks[-1].unopened) is not None and line.endswith("{"):
            blocks[-1].unopened = None
            _enter(blocks, node, iter(_inner(node, module)), module)
            yield PrintedLine(line, indent, node.id, False, owner)
        elif line.startswith("^"):
            yield PrintedLine(line, indent, owner, False, owner)
        elif blocks[-1].expected is None and line.split(" ", 1)[0] in ("return", *CLOSING):
            yield PrintedLine(line, indent, "", False, owner)
        else:
            raise _other(number, line)


def functions(text: str) -> set[str]:
    """Returns the names of the functions that a text defines."""
    lines = map(str.lstrip, text.split("\n"))
    return {_symbol(line) for line in lines if _defines(line)}


def _defines(line: str) -> bool:
    return line.startswith(_FUNCTION) and line.endswith("{")


_NAMELESS = "<<INVALID EMPTY SYMBOL>>"  # what MLIR prints for a function named ""


def _symbol(line: str) -> str:
    """`relu` of `func.func private @relu(%arg0: ...`."""
    name = line.partition("@")[2]
    if name.startswith(_NAMELESS):
        return ""
    if name.startswith('"'):
        return name[1:].partition('"')[0]
    return name.partition("(")[0]


def _begins(line: str, node: Node | None) -> bool:
    """Whether the op begins on this line."""
    if node is None:
        return False
    if not node.results:
        head = line.partition("(")[0].partition(" ")[0].strip('"')
        return head in (node.opcode, node.opcode.removeprefix("func."))
    stem, _, several = node.results[0].name.partition("#")
    return line.startswith(f"%{stem}:" if several else f"%{stem} = ")


def _inner(node: Node, module: Module) -> list[str]:
    """Names of an op's blocks, without the functions that it calls."""
    return [name for name in node.regions if module.regions[name].kind == "block"]


def _enter(blocks: list[_Block], node: Node, names: Iterator[str], module: Module) -> None:
    blocks.append(_Block(iter(module.regions[next(names)].nodes), node, names))


def _close(blocks: list[_Block], line: str, module: Module, number: int) -> None:
    """Leaves a block, and enters the op's next one if the line opens it."""
    block = blocks.pop()
    if block.expected is not None:
        raise _other(number, line)
    if not line.endswith("{"):
        return
    name = next(block.rest, None)
    if name is None or block.owner is None:
        raise _other(number, line)
    _enter(blocks, block.owner, chain([name], block.rest), module)


def _other(number: int, line: str) -> ReadError:
    return ReadError(f"line {number} of the StableHLO text is of another program: {line[:80]!r}")
