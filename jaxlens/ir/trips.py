"""Trip counts of the while loops of an optimised program, from XLA or from the loop's condition.

On CPU and GPU XLA writes the trip counts that it derived into the backend config. On TPU it does
not; there the count is derived from the form that every scan has, a counter in the loop state that
starts at 0, grows by 1 and is compared with a constant. The trips of any other loop are unknown:

    state = (0, x)    condition: state[0] < 128    body: (state[0] + 1, ...)    128 trips
"""

import re
from collections.abc import Mapping

from jaxlens.ir.graph import Module, Node, Region

_KNOWN = re.compile(r'"known_trip_count":\s*\{\s*"n":\s*"?(\d+)')
_SAME = frozenset({"copy", "bitcast", "copy-done"})


def trips(node: Node, region: Region, module: Module) -> int | None:
    """Returns the trip count of one execution of a while loop; None where unknown.

    Args:
        node: The loop.
        region: The computation that it is in.
        module: The program.
    """
    match = _KNOWN.search(node.attrs.get("backend_config", ""))
    if match:
        return int(match[1])
    if len(node.regions) != 2 or not all(name in module.regions for name in node.regions):
        return None
    condition, body = (module.regions[name] for name in node.regions)
    outside, tested, next_ = _by_id(region), _by_id(condition), _by_id(body)
    test = tested.get(condition.results[0]) if condition.results else None
    if test is None or test.opcode != "compare" or test.attrs.get("direction") != "LT":
        return None
    index, limit = _state_index(tested, test.operands[0]), _literal(tested, test.operands[1])
    if index is None or limit is None or not node.operands or not body.results:
        return None
    add = _computed(next_, _element(next_, body.results[0], index))
    if _literal(outside, _element(outside, node.operands[0], index)) != 0 or add is None:
        return None
    terms = [(_state_index(next_, name), _literal(next_, name)) for name in add.operands]
    counts_up = add.opcode == "add" and (index, None) in terms and (None, 1) in terms
    return max(limit, 0) if counts_up else None


def _by_id(region: Region) -> Mapping[str, Node]:
    return {node.id: node for node in region.nodes}


def _element(nodes: Mapping[str, Node], name: str, index: str) -> str:
    """Returns the name of an element of a tuple; "" if the value is not one."""
    whole = _computed(nodes, name)
    if whole is None or whole.opcode != "tuple" or int(index) >= len(whole.operands):
        return ""
    return whole.operands[int(index)]


def _computed(nodes: Mapping[str, Node], name: str) -> Node | None:
    """Returns the instruction that computes a value, skipping copies and bitcasts."""
    node = nodes.get(name)
    while node is not None and node.opcode in _SAME and node.operands:
        node = nodes.get(node.operands[0])
    return node


def _state_index(nodes: Mapping[str, Node], name: str) -> str | None:
    """Returns the index of the state element that a value is; None where it is not one."""
    node = _computed(nodes, name)
    if node is None or node.opcode != "get-tuple-element":
        return None
    state = nodes.get(node.operands[0])
    return node.attrs.get("index") if state is not None and state.opcode == "parameter" else None


def _literal(nodes: Mapping[str, Node], name: str) -> int | None:
    node = _computed(nodes, name)
    if node is None or node.opcode != "constant":
        return None
    try:
        return int(node.attrs.get("literal", ""))
    except ValueError:
        return None
