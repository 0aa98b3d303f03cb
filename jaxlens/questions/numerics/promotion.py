"""Values that an operation of `jax.numpy` silently converted to a wider float.

Both operands of an operation get one type. An explicit `astype` stands at columns of its own; the
conversion that promotion inserts stands at those of the operation.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jaxlens.ir.facts import Input
from jaxlens.ir.graph import Module, Node, Region, Span, Type

_WIDTH = {"bf16": 16, "f16": 16, "f32": 32, "f64": 64}
_BINARY = frozenset("add sub mul div max min pow atan2 rem dot_general".split())
_CONVERT = "convert_element_type"
_NONE = Type("")  # of a literal


@dataclass(frozen=True, slots=True)
class Promotion:
    """A narrow value that became wider because the other operand is.

    Attributes:
        id: The equation that converts it.
        span: The user's line.
        opcode: The operation.
        narrow: The type of the value before.
        wide: Its type after.
        other: The type of the other operand, or the literal.
        equations: Equations of the same body that compute on the wide result, this one included.
    """

    id: str
    span: Span
    opcode: str
    narrow: Type
    wide: Type
    other: str
    equations: int


def promotions(
    module: Module, inputs: Sequence[Input], spans: Mapping[str, Span | None]
) -> Iterator[Promotion]:
    """Yields the promotions of a program's main floating-point type, in program order."""
    sizes: dict[str, int] = {}
    for leaf in inputs:
        if leaf.type.dtype in _WIDTH:
            elements = (leaf.type.bytes or 0) // (_WIDTH[leaf.type.dtype] // 8)
            sizes[leaf.type.dtype] = sizes.get(leaf.type.dtype, 0) + elements
    # The float type of most input elements.
    main = max(sizes, key=lambda dtype: sizes[dtype], default="")
    for region in module.regions.values() if main else ():
        yield from _of_region(region, main, spans)


def _of_region(region: Region, main: str, spans: Mapping[str, Span | None]) -> Iterator[Promotion]:
    types = region.types()
    wide = {n for n, type in types.items() if _WIDTH.get(type.dtype, 0) > _WIDTH[main]}
    converts = {
        node.name: node
        for node in region.nodes
        if node.opcode == _CONVERT
        and node.name in wide
        and types.get(node.operands[0], _NONE).dtype == main
    }
    widened: set[str] = set()  # wide results of promotions and of what follows: reported once
    for node in region.nodes:
        span, follows = spans.get(node.id), not widened.isdisjoint(node.operands)
        if follows and not wide.isdisjoint(_results(node)):
            widened |= _results(node)
        if follows or span is None or node.opcode not in _BINARY:
            continue
        here = [name for name in node.operands
                if name in converts and spans.get(converts[name].id) == span]  # fmt: skip
        others = [name for name in node.operands if name not in here]
        if len(here) != 1 or not others or _returns(node, region, wide, spans):
            continue
        widened |= _results(node)
        convert = converts[here[0]]
        yield Promotion(
            convert.id,
            span,
            node.opcode,
            types[convert.operands[0]],
            types[here[0]],
            str(types.get(others[0], others[0])),
            _count_after(node, region, wide),
        )


def _results(node: Node) -> set[str]:
    return {value.name for value in node.results}


def _returns(node: Node, region: Region, wide: set[str], spans: Mapping[str, Span | None]) -> bool:
    """Whether the same operation converts its result back, as `jnp.sum` of bfloat16 does.

    In a forward pass, an equation of the same line converts the result itself. In a backward pass,
    wide equations of that line may stand between: then every wide value must end in a conversion,
    and none may be used by another line or returned.
    """
    followed = _results(node)
    back = escapes = False
    for one in region.nodes:
        if followed.isdisjoint(one.operands):
            continue
        same, is_wide = spans.get(one.id) == spans[node.id], not wide.isdisjoint(_results(one))
        if same and one.opcode == _CONVERT and not is_wide:
            if not _results(node).isdisjoint(one.operands):
                return True
            back = True
        elif same and is_wide:
            followed |= _results(one)
        else:
            escapes = True
    return back and not escapes and followed.isdisjoint(region.results)


def _count_after(node: Node, region: Region, wide: set[str]) -> int:
    """Counts the node and all that compute on its wide result, as long as they are wide."""
    names, count = set[str](), 0
    for one in region.nodes:
        follows = one is node or not names.isdisjoint(one.operands)
        if follows and not wide.isdisjoint(_results(one)):
            names |= _results(one)
            count += 1
    return count
