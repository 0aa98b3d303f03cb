"""StableHLO as lines in MLIR's manner, with types in the short notation of the other stages.

Nested blocks stand under their op; a block of one op (the sum of a reduction) on its line.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import TypeAlias

from jaxlens.ir.graph import Module, Node, Region, Value
from jaxlens.lenses.lines import owners
from jaxlens.render.document import Kind, Line, Listing, Piece
from jaxlens.render.hlo_lines import type_pieces
from jaxlens.render.lines_by_id import LinesById

LIMIT = 2000
_LONG = 70
_QUIET = {
    "precision_config": ("[DEFAULT, DEFAULT]", "[DEFAULT]"),
    "strides": ("[1, 1]", "[1]", "[1, 1, 1]", "[1, 1, 1, 1]"),
    "backend_config": ("", '""', "{}"),
    "broadcast_dimensions": ("[]",),
}
_FOLDED = frozenset({"mhlo.frontend_attributes", "mhlo.sharding", "sdy.sharding", "result_layouts",
                     "operand_layouts", "mhlo.backend_config"})  # fmt: skip
_CALLEE = "callee"

Steps: TypeAlias = "Iterator[Line | Steps]"
"""Lines, and further steps that stand where they come."""


@dataclass(frozen=True, slots=True)
class _Page:
    """What all lines of one listing need to know."""

    module: Module
    owners: Mapping[str, str]


def listing(module: Module, *, limit: int = LIMIT) -> Listing:
    """The whole module.

    Args:
        module: StableHLO.
        limit: Most lines.
    """
    lines = _all_lines(module)
    kept = tuple(islice(lines, limit))
    left = sum(1 for _ in lines)
    return Listing(
        "stablehlo", kept, f"{left:,} more lines: cap.stablehlo.text has them all" if left else ""
    )


def operation(node: Node, module: Module, owner: str = "") -> Line:
    """One op: `%3 = add %1, %2 : f32[8]`; the blocks inside by what they do."""
    dialect, _, name = node.opcode.rpartition(".")
    pieces = [*_results(node)]
    if dialect and dialect != "func":
        pieces.append(Piece(f"{dialect}.", "fold"))
    pieces.append(Piece(name, "op"))
    if _CALLEE in node.attrs:
        pieces.append(Piece(f" {node.attrs[_CALLEE]}", "keyword"))
    if node.operands:
        pieces += [Piece(" "), Piece(", ".join(f"%{name}" for name in node.operands), "name")]
    pieces += [_attribute(k, v) for k, v in node.attrs.items() if k != _CALLEE]
    for region in _small(node, module):
        body = region.nodes[0]
        pieces.append(Piece(f" applies {body.opcode.rpartition('.')[2]}", "attr"))
    if node.results:
        pieces += [Piece(" : "), *type_pieces(node.type)]
    return Line(tuple(pieces), node.id, 0, owner)


def operations(module: Module) -> Mapping[str, Line]:
    """Every op, by id."""
    return LinesById(module, lambda node, owner: operation(node, module, owner))


def _all_lines(module: Module) -> Iterator[Line]:
    page = _Page(module, {i: str(span) for i, span in owners(module).items()})
    first = True
    for region in module.regions.values():
        if region.kind != "func":
            continue
        if not first:
            yield Line(())
        yield from _arguments(module) if first else ()
        first = False
        stack: list[Steps] = [_block(page, region, "func @", 0, "")]
        while stack:
            step = next(stack[-1], None)
            if step is None:
                stack.pop()
            elif isinstance(step, Line):
                yield step
            else:
                stack.append(step)


def _arguments(module: Module) -> Iterator[Line]:
    """What the entry's arguments are called in the user's program."""
    for index, value in enumerate(module.body().parameters):
        if text := module.attrs.get(f"main arg{index}", ""):
            name, _, marks = text.partition(" {")
            fold = [Piece(f" {{{marks}", "fold")] if marks else []
            yield Line((Piece(f"// %{value.name} = {name}", "comment"), *fold))


def _block(page: _Page, region: Region, word: str, indent: int, node: str) -> Steps:
    """A title with parameters, the ops, and what it returns."""
    owner = page.owners.get(node, "")
    head = [Piece(f"{word}{region.name if not node else ''}", "keyword"), Piece("(")]
    yield Line((*head, *_parameters(region.parameters), Piece(") {")), node, indent, owner)
    for inner in region.nodes:
        line = operation(inner, page.module, page.owners.get(inner.id, ""))
        yield Line(line.pieces, line.id, indent + 1, line.line)
        small = _small(inner, page.module)
        called = inner.regions if _calls_only(inner, page.module) else ()
        for name in inner.regions:
            body = page.module.regions[name]
            if name not in called and body not in small and body.kind == "block":
                yield _block(page, body, _role(name, inner), indent + 2, inner.id)
    if region.results:
        values = ", ".join(f"%{name}" for name in region.results)
        yield Line((Piece("return ", "keyword"), Piece(values, "name")), "", indent + 1, owner)
    yield Line((Piece("}"),), node, indent, owner)


def _calls_only(node: Node, module: Module) -> bool:
    return all(module.regions[name].kind == "func" for name in node.regions)


def _role(name: str, node: Node) -> str:
    """ "cond" for the region "while cond 2" of a while."""
    words = name.removeprefix(node.opcode.rpartition(".")[2]).strip()
    return " ".join(w for w in words.split() if not w.isdigit() or "branch" in words)


def _small(node: Node, module: Module) -> tuple[Region, ...]:
    """Its blocks that are one op over their own parameters."""
    found = []
    for name in node.regions:
        region = module.regions[name]
        names = {value.name for value in region.parameters}
        if region.kind == "block" and len(region.nodes) == 1 and node.opcode != "stablehlo.while":
            (only,) = region.nodes
            if not only.regions and set(only.operands) == names and len(names) == 2:
                found.append(region)
    return tuple(found)


def _parameters(values: Sequence[Value]) -> list[Piece]:
    pieces: list[Piece] = []
    for value in values:
        comma = ", " if pieces else ""
        pieces += [Piece(f"{comma}%{value.name}", "name"), Piece(": "), *type_pieces(value.type)]
    return pieces


def _results(node: Node) -> list[Piece]:
    """`%3`, or `%3:4` for four results, which others read as %3#0 to %3#3."""
    names = [value.name for value in node.results]
    if not names:
        return []
    words = []
    for stem, group in groupby(names, lambda name: name.partition("#")[0]):
        size = len(list(group))
        words.append(f"%{stem}" if size == 1 else f"%{stem}:{size}")
    return [Piece(", ".join(words), "name"), Piece(" = ")]


def _attribute(key: str, value: str) -> Piece:
    if key == "value" and len(value) <= _LONG:
        return Piece(f" {value}", "literal")
    hidden = value in _QUIET.get(key, ()) or key in _FOLDED or len(value) > _LONG
    kind: Kind = "fold" if hidden else "attr"
    if key == "dot_dimension_numbers":
        return Piece(f" {value}", "attr")
    return Piece(f" {key}={value}", kind)
