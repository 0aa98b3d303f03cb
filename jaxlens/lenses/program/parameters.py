"""Which input of the program each parameter of an HLO module is."""

from collections.abc import Mapping, Sequence

from jaxlens.ir.facts import Input
from jaxlens.ir.graph import Module, Node


def parameters(module: Module) -> list[Node]:
    """The instructions of the entry that stand for its parameters."""
    return [node for node in module.body().nodes if node.opcode == "parameter"]


def inputs_of(module: Module, inputs: Sequence[Input]) -> Mapping[str, Input]:
    """The inputs by parameter instruction; JAX leaves out those that the program does not read.

    Their order tells where all are there, else JAX's names of them, which it writes as scopes.
    """
    nodes = parameters(module)
    if len(nodes) == len(inputs):
        every = (_number(node) for node in nodes)
        return {node.id: inputs[n] for node, n in zip(nodes, every, strict=True) if n < len(inputs)}
    named = {one.path or one.name: one for one in inputs}
    return {node.id: named[node.scope] for node in nodes if node.scope in named}


def numbers(module: Module, inputs: Sequence[Input]) -> dict[str, int]:
    """Parameter numbers by the inputs' names; what the program does not read has none."""
    found = inputs_of(module, inputs)
    return {found[n.id].name: _number(n) for n in parameters(module) if n.id in found}


def _number(node: Node) -> int:
    return int(node.attrs.get("index", "0"))
