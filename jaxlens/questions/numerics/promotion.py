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
    makers = {value.name: node for node in region.nodes for value in node.results}
    widened: set[str] = set()  # wide results of promotions and of what follows: reported once
    for node in region.nodes:
        span = spans.get(node.id)
        if span is None or node.opcode not in _BINARY or not widened.isdisjoint(node.operands):
            if not widened.isdisjoint(node.operands) and _is_wide(node, main):
                widened.update(value.name for value in node.results)
            continue
        converted = [
            name
            for name in node.operands
            if name in makers
            and makers[name].opcode == _CONVERT
            and _type(types, makers[name].operands[0]).dtype == main
            and _WIDTH.get(types[name].dtype, 0) > _WIDTH[main]
            and spans.get(makers[name].id) == span
        ]
        others = [name for name in node.operands if name not in converted]
        if len(converted) != 1 or not others or _returns(node, region, main, spans):
            continue
        widened.update(value.name for value in node.results)
        convert = makers[converted[0]]
        yield Promotion(
            convert.id,
            span,
            node.opcode,
            _type(types, convert.operands[0]),
            types[converted[0]],
            str(types.get(others[0], others[0])),
            sum(True for _ in _after(node, region, main)),
        )


def _type(types: Mapping[str, Type], name: str) -> Type:
    return types.get(name, Type(""))


def _is_wide(node: Node, main: str) -> bool:
    return any(_WIDTH.get(value.type.dtype, 0) > _WIDTH[main] for value in node.results)


def _returns(node: Node, region: Region, main: str, spans: Mapping[str, Span | None]) -> bool:
    """Whether the same operation converts its result back, as `jnp.sum` of bfloat16 does.

    In a forward pass, an equation of the same line converts the result itself. In a backward pass,
    wide equations of that line may stand between: then every wide value must end in a conversion,
    and none may be used by another line or returned.
    """
    wide = {value.name for value in node.results}
    back = escapes = False
    for one in region.nodes:
        if wide.isdisjoint(one.operands):
            continue
        same = spans.get(one.id) == spans[node.id]
        if same and one.opcode == _CONVERT and not _is_wide(one, main):
            if any(value.name in one.operands for value in node.results):
                return True
            back = True
        elif same and _is_wide(one, main):
            wide.update(value.name for value in one.results)
        else:
            escapes = True
    return back and not escapes and wide.isdisjoint(region.results)


def _after(node: Node, region: Region, main: str) -> Iterator[Node]:
    """Yields the node and all that compute on its wide result, as long as they are wide."""
    names: set[str] = set()
    for one in region.nodes:
        if (one is node or not names.isdisjoint(one.operands)) and _is_wide(one, main):
            names.update(value.name for value in one.results)
            yield one
