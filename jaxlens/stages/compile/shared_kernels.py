"""Finds fusions that share a kernel: XLA compiles equal fusions once, under one's name.

Two fusions are equal if their computations have the same opcodes, types with layouts, attributes
and operands in the same order; names and metadata are ignored.
"""

from collections.abc import Collection, Iterable

from jaxlens.ir.graph import Module, Node, Region
from jaxlens.ir.hlo.lazy_module import Instruction


def owners(module: Module, lacking: Collection[Node], having: Collection[Node]) -> dict[str, str]:
    """Returns, for each fusion without code, an equal one that has code.

    Args:
        module: The optimised program.
        lacking: Fusions without code of their name.
        having: Fusions with code, in the program's order.

    Returns:
        Node id to the id of the first equal node; nodes without one are left out.
    """
    if not lacking:
        return {}
    bodies = _bodies(module, [*having, *lacking])
    first: dict[object, str] = {}
    for node in having:
        first.setdefault(_call(node, module, bodies), node.id)
    equal = {node.id: first.get(_call(node, module, bodies)) for node in lacking}
    return {name: owner for name, owner in equal.items() if owner is not None}


def _bodies(module: Module, fusions: Iterable[Node]) -> dict[str, int]:
    """Numbers the regions that these fusions reach; equal regions get equal numbers.

    Callees precede callers in the reversed order, so when a region is compared, each region that
    it calls is a number already: one comparison of tuples per region, without recursion.
    """
    reached = {name for node in fusions for name in node.regions}
    pending = list(reached)
    for name in pending:
        for node in module.regions[name].nodes if name in module.regions else ():
            fresh = [inner for inner in node.regions if inner not in reached]
            reached.update(fresh)
            pending += fresh
    numbers: dict[object, int] = {}
    bodies: dict[str, int] = {}
    for name, region in reversed(list(module.regions.items())):  # `regions` lists callers first
        if name in reached:
            bodies[name] = numbers.setdefault(_content(region, module, bodies), len(numbers))
    return bodies


def _content(region: Region, module: Module, bodies: dict[str, int]) -> object:
    """Returns a region's ops and results with positions instead of names, for comparison."""
    places = {node.id: place for place, node in enumerate(region.nodes)}
    nodes = [
        (
            _text(node) or _call(node, module, bodies),
            tuple([places.get(name, -1) for name in node.operands]),
        )
        for node in region.nodes
    ]
    return tuple(nodes), tuple(places.get(name, -1) for name in region.results)


def _text(node: Node) -> tuple[str, str, str] | None:
    """Returns an instruction's text without names and metadata; None if `_call` must compare it."""
    if node.regions or not isinstance(node, Instruction) or not node.operands:
        return None
    if node.said is None or "frontend_attributes=" in node.said:
        return None
    return node.opcode, node.shape, node.said


def _call(node: Node, module: Module, bodies: dict[str, int]) -> object:
    attributes = tuple(
        (key, value)
        for key, value in node.attrs.items()
        if key not in ("metadata", "frontend_attributes") and value.lstrip("%") not in bodies
    )
    called = tuple(bodies.get(name, -1) for name in node.regions)
    return node.opcode, node.type, attributes, called
