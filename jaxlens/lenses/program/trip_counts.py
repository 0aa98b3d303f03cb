"""How often a loop of an optimised program runs: as XLA says, else as its condition shows.

XLA writes down the trips that it has worked out on CPU and GPU. On TPU it does not; there a loop
that counts a part of its state up from 0 by 1 while it is below a constant is read off its three
parts, which is how every scan is written. Of any other loop nothing is known.
"""

import re
from collections.abc import Mapping

from jaxlens.ir.graph import Module, Node, Region

_SAID = re.compile(r'"known_trip_count":\s*\{\s*"n":\s*"?(\d+)')
_SAME = frozenset({"copy", "bitcast", "copy-done"})


def trips(node: Node, region: Region, module: Module) -> int | None:
    """How often a while loop's body runs each time; None where that is not known.

    Args:
        node: The loop.
        region: Where it stands.
        module: The program.
    """
    said = _SAID.search(node.attrs.get("backend_config", ""))
    if said:
        return int(said[1])
    if len(node.regions) != 2 or not all(name in module.regions for name in node.regions):
        return None
    condition, body = (module.regions[name] for name in node.regions)
    bound = _below(condition)
    if bound is None:
        return None
    place, limit = bound
    start = _part(_by_id(region), node.operands[0], place) if node.operands else None
    if start != 0 or not _counts_up(body, place):
        return None
    return max(limit, 0)


def _by_id(region: Region) -> Mapping[str, Node]:
    return {node.id: node for node in region.nodes}


def _below(condition: Region) -> tuple[str, int] | None:
    """The part of the state that has to be below a constant, and the constant."""
    nodes = _by_id(condition)
    root = nodes.get(condition.results[0]) if condition.results else None
    if root is None or root.opcode != "compare" or root.attrs.get("direction") != "LT":
        return None
    place, limit = _place(nodes, root.operands[0]), _literal(nodes, root.operands[1])
    return None if place is None or limit is None else (place, limit)


def _counts_up(body: Region, place: str) -> bool:
    """Whether a run of the body adds 1 to that part of the state."""
    nodes = _by_id(body)
    root = nodes.get(body.results[0]) if body.results else None
    if root is None or root.opcode != "tuple" or int(place) >= len(root.operands):
        return False
    add = _real(nodes, root.operands[int(place)])
    if add is None or add.opcode != "add":
        return False
    seen = [(_place(nodes, name), _literal(nodes, name)) for name in add.operands]
    return sorted(seen, key=str) == sorted([(place, None), (None, 1)], key=str)


def _part(nodes: Mapping[str, Node], name: str, place: str) -> int | None:
    """The number that a part of a tuple is."""
    whole = _real(nodes, name)
    if whole is None or whole.opcode != "tuple" or int(place) >= len(whole.operands):
        return None
    return _literal(nodes, whole.operands[int(place)])


def _real(nodes: Mapping[str, Node], name: str) -> Node | None:
    """What a value is, copies looked through."""
    node = nodes.get(name)
    while node is not None and node.opcode in _SAME and node.operands:
        node = nodes.get(node.operands[0])
    return node


def _place(nodes: Mapping[str, Node], name: str) -> str | None:
    """Which part of the state a value is; None where it is none."""
    node = _real(nodes, name)
    if node is None or node.opcode != "get-tuple-element":
        return None
    state = nodes.get(node.operands[0])
    return node.attrs.get("index") if state is not None and state.opcode == "parameter" else None


def _literal(nodes: Mapping[str, Node], name: str) -> int | None:
    node = _real(nodes, name)
    if node is None or node.opcode != "constant":
        return None
    try:
        return int(node.attrs.get("literal", ""))
    except ValueError:
        return None
