"""How often loops and computations run: the one place that every figure of a program asks.

On CPU and GPU XLA writes the trip counts that it derived into the backend config. On TPU it does
not; there the count is derived from the form that every scan has, a counter in the loop state that
starts at 0, grows by 1 and is compared with a constant. The trips of any other loop are unknown:

    state = (0, x)    condition: state[0] < 128    body: (state[0] + 1, ...)    128 trips

A sum over a program with such a loop is of a run with one pass of it, and says so
(`RunCount.open`); where it cannot say so it is unknown.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from jaxlens.ir.graph import Module, Node, Region

CONTROL = frozenset({"while", "conditional", "call", "async-start"})
"""Instructions whose called computations run instruction by instruction."""
_KNOWN = re.compile(r'"known_trip_count":\s*\{\s*"n":\s*"?(\d+)')
_SAME = frozenset({"copy", "bitcast", "copy-done"})
_LITERAL = re.compile(r"(-?\d+):[iu]\d+\[\]")  # in a jaxpr
_BEYOND = {"lt": 0, "le": 1, "gt": 0, "ge": 1}  # how far a counter goes beyond its limit


@dataclass(frozen=True, slots=True)
class RunCount:
    """How often a computation runs in a run of the program.

    Attributes:
        times: Its executions, with one pass of each loop in `open`.
        open: The loops around it whose trips are unknown, by line; () where `times` is all.
    """

    times: int
    open: tuple[str, ...] = ()


def runs(module: Module) -> dict[str, RunCount]:
    """Returns how often each computation runs that does so instruction by instruction.

    Callers precede callees in `Module.regions`, so the runs of a computation are complete when it
    is reached. A while condition runs once more than its body: 3 trips test it 4 times. Each branch
    of a conditional counts as one that runs.
    """
    known = {module.entry: RunCount(1)}
    for name, region in module.regions.items():
        if (here := known.get(name)) is None:
            continue
        for node in region.nodes:
            if node.opcode in CONTROL:
                for inner, times, unsure in _bodies(node, region, module):
                    before = known.get(inner, RunCount(0))
                    loops = dict.fromkeys((*before.open, *here.open, *unsure))
                    known[inner] = RunCount(before.times + here.times * times, tuple(loops))
    return known


def _bodies(
    node: Node, region: Region, module: Module
) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Yields the computations that an instruction runs, how often, and the loop if it is open."""
    count = trips(node, region, module) if node.opcode == "while" else 1
    unsure = (loop_name(node),) if count is None else ()
    for index, inner in enumerate(node.regions):
        is_test = node.opcode == "while" and index == 0
        yield inner, 1 if count is None else count + is_test, unsure


def loop_name(node: Node) -> str:
    """Returns the line of a loop, or its id where no line owns it."""
    return str(node.owner or node.id)


def trips(node: Node, region: Region, module: Module) -> int | None:
    """Returns the trip count of one execution of a while instruction; None where unknown.

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


def counted_trips(node: Node, module: Module) -> int | None:
    """Returns the trips of a `while` equation that counts between two literals; None else.

    i = 0; the condition is `lt i 10` and the body has `add i 2`: 5 trips.
    """
    try:
        return _counted(node, module)
    except (LookupError, ValueError):  # an equation of another JAX
        return None


def _counted(node: Node, module: Module) -> int | None:
    body, condition = (module.regions[node.attrs[name]] for name in ("body_jaxpr", "cond_jaxpr"))
    of_test, of_body = (int(node.attrs[name]) for name in ("cond_nconsts", "body_nconsts"))
    test = _maker(condition, condition.results[0])
    names = [value.name for value in condition.parameters[of_test:]]
    if test is None or test.opcode not in _BEYOND or test.operands[0] not in names:
        return None
    index = names.index(test.operands[0])
    step = _maker(body, body.results[index])
    counter = body.parameters[of_body + index].name
    if step is None or step.opcode not in ("add", "sub") or counter not in step.operands:
        return None
    is_sub, (by,) = (
        step.opcode == "sub",
        [name for name in step.operands if name != counter] or [""],
    )
    if is_sub and step.operands[0] != counter:
        return None
    texts = node.operands[of_test + of_body + index], test.operands[1], by
    found = [_LITERAL.fullmatch(text) for text in texts]
    if None in found:
        return None
    start, end, change = (int(match[1]) for match in found if match)
    up = test.opcode in ("lt", "le")
    change = (-change if is_sub else change) * (1 if up else -1)
    distance = (end - start if up else start - end) + _BEYOND[test.opcode]
    return max(-(-distance // change), 0) if change > 0 else None


def _maker(region: Region, name: str) -> Node | None:
    """Returns the equation that makes a value."""
    made = (node for node in region.nodes if any(value.name == name for value in node.results))
    return next(made, None)
