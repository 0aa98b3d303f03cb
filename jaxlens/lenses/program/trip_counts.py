"""Trip counts of the while loops of an optimised program, from XLA or from the loop's condition.

On CPU and GPU XLA writes the trip counts that it derived into the backend config. On TPU it does
not; there the count is derived from the form that every scan has, a counter in the loop state that
starts at 0, grows by 1 and is compared with a constant. The trips of any other loop are unknown:

    state = (0, x)    condition: state[0] < 128    body: (state[0] + 1, ...)    128 trips
"""

import re
from collections.abc import Mapping

from jaxlens.ir.graph import Module, Node, Region

_SAID = re.compile(r'"known_trip_count":\s*\{\s*"n":\s*"?(\d+)')
_SAME = frozenset({"copy", "bitcast", "copy-done"})


def trips(node: Node, region: Region, module: Module) -> int | None:
    """Returns the trip count of one execution of a while loop; None where unknown.

    Args:
        node: The loop.
        region: The computation that it is in.
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
    """Returns the index of the counter in the state and its bound, for `counter < constant`."""
    nodes = _by_id(condition)
    root = nodes.get(condition.results[0]) if condition.results else None
    if root is None or root.opcode != "compare" or root.attrs.get("direction") != "LT":
        return None
    place, limit = _place(nodes, root.operands[0]), _literal(nodes, root.operands[1])
    return None if place is None or limit is None else (place, limit)


def _counts_up(body: Region, place: str) -> bool:
    """Whether the body adds 1 to an element of the state."""
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
    """Returns the constant that is an element of a tuple; None if it is not one."""
    whole = _real(nodes, name)
    if whole is None or whole.opcode != "tuple" or int(place) >= len(whole.operands):
        return None
    return _literal(nodes, whole.operands[int(place)])


def _real(nodes: Mapping[str, Node], name: str) -> Node | None:
    """Returns the instruction that computes a value, skipping copies and bitcasts."""
    node = nodes.get(name)
    while node is not None and node.opcode in _SAME and node.operands:
        node = nodes.get(node.operands[0])
    return node


def _place(nodes: Mapping[str, Node], name: str) -> str | None:
    """Returns the index of the state element that a value is; None where it is not one."""
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
