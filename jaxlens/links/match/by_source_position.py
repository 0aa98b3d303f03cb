"""Matches nodes of neighbouring stages by where they stand: scope and line of Python.

It is what is left where nothing was stamped: captures of earlier versions, and of compilers that
keep no names. A place that several nodes share links all of them.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from jaxlens.ir.graph import Module, Node

Place = tuple[str, str]


def by_place(jaxpr: Module, stablehlo: Module) -> dict[str, tuple[str, ...]]:
    """The equations at the place of each op: in order, where each can have as many ops."""
    there: defaultdict[Place, list[str]] = defaultdict(list)
    for node in jaxpr.nodes():
        scope = f"{node.scope}/{node.opcode}" if node.scope else node.opcode
        there[_place(scope, node)].append(node.id)
    groups: defaultdict[Place, list[str]] = defaultdict(list)
    for node in stablehlo.nodes():
        groups[_place(_inner(node.scope), node)].append(node.id)
    found: dict[str, tuple[str, ...]] = {}
    for place, ops in groups.items():
        equations = there.get(place, [])
        each = len(ops) // len(equations) if equations and not len(ops) % len(equations) else 0
        for index, op in enumerate(ops):
            found[op] = (equations[index // each],) if each else tuple(equations)
    return found


def ops_at(stablehlo: Module) -> Mapping[Place, tuple[Node, ...]]:
    """Ops by scope and owner."""
    there: defaultdict[Place, list[Node]] = defaultdict(list)
    for node in stablehlo.nodes():
        if node.scope:
            there[_place(node.scope, node)].append(node)
            if node.spans:
                there[node.scope, ""].append(node)  # for instructions without frames
    return {place: tuple(nodes) for place, nodes in there.items()}


def at(node: Node, there: Mapping[Place, tuple[Node, ...]]) -> tuple[str, ...]:
    """The ops at an instruction's place: those of its own kind where there are some."""
    found: list[Node] = []
    for scope in dict.fromkeys(node.scope.split(";")):
        found += there.get(_place(scope, node), ())
    return _like(node, found)


def _like(node: Node, found: Iterable[Node]) -> tuple[str, ...]:
    ids = [op.id for op in found]
    same = [op.id for op in found if _word(op.opcode) == _word(node.opcode)]
    return tuple(same or ids)


def _word(opcode: str) -> str:
    return opcode.rpartition(".")[2].replace("_", "-").replace("dot-general", "dot")


def _inner(scope: str) -> str:
    """A scope without the name of the whole program."""
    first, _, rest = scope.partition("/")
    return rest if first.startswith(("jit(", "pjit(")) else scope


def _place(scope: str, node: Node) -> Place:
    return scope, str(node.owner or "")
