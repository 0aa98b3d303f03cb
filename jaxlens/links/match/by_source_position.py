"""Matches nodes of adjacent stages by source position: name stack and source line.

This is for nodes without stamps: captures of earlier versions, and compilers that drop op_names. A
position that several nodes share links all of them:

    e3 = dot  jit(f)/layer, model.py:7        s9 = dot_general  jit(f)/layer/dot, model.py:7
    e4 = dot  jit(f)/layer, model.py:7        s12, s13, s14: the same position

With two equations and four ops, e3 has the first two and e4 the others, as lowering keeps the
order. With three ops it is not known which equation has two, so each op is linked to both.
"""

from collections import defaultdict
from collections.abc import Mapping

from jaxlens.ir.graph import Module, Node
from jaxlens.links.match.by_keys import grouped

Position = tuple[str, str]
"""A name stack, and the line that owns a node; "" without frames."""


def equations_by_position(jaxpr: Module, stablehlo: Module) -> dict[str, tuple[str, ...]]:
    """Returns the equations of each op by position, in order if each has equally many ops."""
    equations = grouped(None, jaxpr.nodes(), _of_equation)
    result: dict[str, tuple[str, ...]] = {}
    for position, ops in grouped(None, stablehlo.nodes(), _of_op).items():
        ids = [node.id for node in equations.get(position, ())]
        share = len(ops) // len(ids) if ids and not len(ops) % len(ids) else 0
        for index, op in enumerate(ops):
            result[op.id] = (ids[index // share],) if share else tuple(ids)
    return result


def ops_by_position(stablehlo: Module) -> Mapping[Position, tuple[Node, ...]]:
    """Returns ops by position, and by name stack alone for instructions without frames."""
    ops: defaultdict[Position, list[Node]] = defaultdict(list)
    for node in stablehlo.nodes():
        if node.scope:
            ops[_position(node.scope, node)].append(node)
            if node.spans:
                ops[node.scope, ""].append(node)
    return {position: tuple(nodes) for position, nodes in ops.items()}


def ops_at(node: Node, ops: Mapping[Position, tuple[Node, ...]]) -> tuple[str, ...]:
    """Returns the ops at an instruction's position: those of its opcode, if there are any."""
    scopes = dict.fromkeys(node.scope.split(";"))
    nodes = [op for scope in scopes for op in ops.get(_position(scope, node), ())]
    opcode = _opcode(node)
    return tuple([op.id for op in nodes if _opcode(op) == opcode] or [op.id for op in nodes])


def _opcode(node: Node) -> str:
    return node.opcode.rpartition(".")[2].replace("_", "-").replace("dot-general", "dot")


def _of_equation(_: None, node: Node) -> Position:
    return _position(f"{node.scope}/{node.opcode}" if node.scope else node.opcode, node)


def _of_op(_: None, node: Node) -> Position:
    program, _sep, rest = node.scope.partition("/")  # equations' scopes lack it
    return _position(rest if program.startswith(("jit(", "pjit(")) else node.scope, node)


def _position(scope: str, node: Node) -> Position:
    return scope, str(node.owner or "")
