"""Matches the parameters of an HLO module to the inputs of the program."""

from collections.abc import Mapping, Sequence

from jaxlens.ir.facts import Input
from jaxlens.ir.graph import Module, Node


def parameters(module: Module) -> list[Node]:
    """Returns the `parameter` instructions of the entry computation."""
    return [node for node in module.body().nodes if node.opcode == "parameter"]


def inputs_of(module: Module, inputs: Sequence[Input]) -> Mapping[str, Input]:
    """Returns the inputs by id of their parameter instruction.

    JAX drops inputs that the program does not read. If none is dropped, parameters match inputs by
    number; otherwise by the input's name, which JAX writes as the parameter's scope.
    """
    nodes = parameters(module)
    if len(nodes) == len(inputs):
        every = (_number(node) for node in nodes)
        return {node.id: inputs[n] for node, n in zip(nodes, every, strict=True) if n < len(inputs)}
    named = {one.path or one.name: one for one in inputs}
    return {node.id: named[node.scope] for node in nodes if node.scope in named}


def numbers(module: Module, inputs: Sequence[Input]) -> dict[str, int]:
    """Returns parameter numbers by input name; inputs that the program does not read have none."""
    found = inputs_of(module, inputs)
    return {found[n.id].name: _number(n) for n in parameters(module) if n.id in found}


def _number(node: Node) -> int:
    return int(node.attrs.get("index", "0"))
