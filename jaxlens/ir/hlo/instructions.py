"""Kinds of HLO instructions: no work, control flow, asynchronous, parameters.

An asynchronous operation is a `-start` and a `-done`. The value of a `-start` is a tuple of its
operands, its results and the runtime's context; the `-done` returns the results. The bytes are
attributed to the `-start`; the `-done` moves none.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from jaxlens.ir.facts import Input
from jaxlens.ir.graph import Module, Node, Region, Type
from jaxlens.ir.hlo.library_products import without_scratch

PLUMBING = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "bitcast"})
"""Instructions that compute nothing."""
ENDS = frozenset(
    "copy-done async-done async-update all-gather-done all-reduce-done collective-permute-done "
    "send-done".split()
)
EXCHANGES = frozenset(
    "all-reduce reduce-scatter all-gather all-to-all ragged-all-to-all collective-permute "
    "collective-broadcast".split()
)
"""Collectives, by which devices exchange data; each also exists with the suffix "-start"."""
_WRITTEN = {"copy-start": 0, "collective-permute-start": 1, "all-gather-start": -1}
"""Index of the result in the tuple of a `-start`."""


def idle(node: Node) -> bool:
    """Whether an instruction is one of `ENDS`, or a custom call that only names a buffer.

    "ConcatBitcast" names the slices that were copied beside each other as one array.
    """
    if node.opcode != "custom-call":  # attributes are read from text on first use
        return node.opcode in ENDS or node.opcode.endswith("-done")
    target = node.attrs.get("custom_call_target", "")
    return "AllocateBuffer" in target or target.strip('"') == "ConcatBitcast"


def written(node: Node) -> Type:
    """Returns the type of what an instruction writes.

    For a `-start` it is the type of its result; a library's scratch memory is left out.
    """
    if node.opcode in _WRITTEN and node.type.parts:
        return node.type.parts[_WRITTEN[node.opcode]]
    if node.opcode.endswith("-start") and node.type.parts and node.type.parts[0].parts:
        return node.type.parts[1]  # "slice-start": its operands, its result and a flag
    return without_scratch(node)


def users_of(region: Region) -> Mapping[str, list[Node]]:
    """Returns the instructions of a computation that read each value of it."""
    users: defaultdict[str, list[Node]] = defaultdict(list)
    for node in region.nodes:
        for name in dict.fromkeys(node.operands):
            users[name].append(node)
    return users


def parameters(module: Module) -> list[Node]:
    """Returns the `parameter` instructions of the entry computation."""
    return [node for node in module.body().nodes if node.opcode == "parameter"]


def inputs_of(module: Module, inputs: Sequence[Input]) -> Mapping[str, Input]:
    """Returns the inputs of the program by id of their parameter instruction.

    JAX drops inputs that the program does not read. If none is dropped, parameters match inputs by
    number; otherwise by the input's name, which JAX writes as the parameter's scope.
    """
    nodes = parameters(module)
    if len(nodes) == len(inputs):
        return {node.id: inputs[n] for node in nodes if (n := _number(node)) < len(inputs)}
    by_path = {input.path or input.name: input for input in inputs}
    return {node.id: by_path[node.scope] for node in nodes if node.scope in by_path}


def input_names(module: Module, inputs: Sequence[Input] = ()) -> Mapping[str, str]:
    """Returns what the user's code calls the parameters of the entry, by id of the instruction.

    XLA names a parameter after its path, `params__w__.1` for `params['w']`.

    Args:
        module: An HLO module.
        inputs: The inputs of the program, where they are known; else the path that JAX wrote.
    """
    known = inputs_of(module, inputs) if inputs else {}
    names = {n.id: known[n.id].name if n.id in known else n.scope for n in parameters(module)}
    return {id: name for id, name in names.items() if name}


def numbers(module: Module, inputs: Sequence[Input]) -> dict[str, int]:
    """Returns parameter numbers by input name; inputs that the program does not read have none."""
    by_id = inputs_of(module, inputs)
    return {by_id[n.id].name: _number(n) for n in parameters(module) if n.id in by_id}


def _number(node: Node) -> int:
    return int(node.attrs.get("index", "0"))
