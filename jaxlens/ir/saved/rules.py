"""What lenses and views rely on in a program, checked once, where a file's is read.

The parts of a file can come from several programs or be changed by hand. `check_calls` checks the
calls, and this the rest: names are unique, and an equation or instruction has what its kind needs.
"""

import re
from collections.abc import Mapping
from itertools import chain

from jaxlens.ir.graph import Module, Node, Region, check_calls

_CALLS = frozenset({"jit", "pjit", "closed_call", "scan"})  # they have the values of their body
_NUMBER = re.compile(r"\d{1,18}")
Needs = tuple[int, int, tuple[str, ...]]
"""The least operands, the least bodies, and the parameters that are numbers."""


_EQUATIONS: Mapping[str, Needs] = {
    "scan": (0, 1, ("length", "num_carry", "num_consts")),
    "while": (0, 2, ("cond_nconsts", "body_nconsts")),
    "dynamic_update_slice": (2, 0, ()),
    **dict.fromkeys(("scatter", "scatter-add", "scatter-mul"), (3, 0, ())),
}
_MOVING = "bitcast broadcast convert copy copy-done copy-start dynamic-slice opt-barrier reshape"
_INSTRUCTIONS: Mapping[str, Needs] = {
    "get-tuple-element": (1, 0, ("index",)),
    "fusion": (0, 1, ()),
    **dict.fromkeys(f"{_MOVING} slice transpose".split(), (1, 0, ())),
    "conditional": (1, 1, ()),
    "while": (1, 2, ()),
    **dict.fromkeys("convolution dot dynamic-update-slice gather pad".split(), (2, 0, ())),
    "reduce": (2, 1, ()),
    "scatter": (3, 1, ()),
}
_NOTHING: Needs = (0, 0, ())


def check(module: Module) -> None:
    """Checks a module of a file.

    Raises:
        ValueError: It breaks a rule.
    """
    check_calls(module)
    nodes = [*module.nodes()]
    if len({node.id for node in nodes}) < len(nodes):
        raise ValueError("two of its nodes have one id")
    if module.stage in ("jaxpr", "stablehlo"):
        for region in module.regions.values():
            _check_values(module, region)
    for node in nodes if module.stage != "stablehlo" else ():
        kinds = _EQUATIONS if module.stage == "jaxpr" else _INSTRUCTIONS
        operands, bodies, numbers = kinds.get(node.opcode, _NOTHING)
        if len(node.operands) < operands or len(node.regions) < bodies:
            raise ValueError(f"{node.id!r} lacks an operand or a body")
        if not all(_NUMBER.fullmatch(node.attrs.get(name, "")) for name in numbers):
            raise ValueError(f"{node.id!r} lacks a number of {numbers}")


def _check_values(module: Module, region: Region) -> None:
    values = chain(region.parameters, *(node.results for node in region.nodes))
    names = [value.name for value in values if value.name != "_"]  # JAX's for an unused result
    known = set(names)
    if len(known) < len(names):
        raise ValueError(f"two values of {region.name!r} have one name")
    if module.stage == "stablehlo":
        if any(n.opcode == "stablehlo.constant" and len(n.results) != 1 for n in region.nodes):
            raise ValueError("a constant has other than one result")
        return
    if any(name not in known and ":" not in name for name in region.results):  # else a literal
        raise ValueError(f"{region.name!r} returns what it does not have")
    for node in region.nodes:
        if node.opcode in _CALLS and node.regions:
            _check_call(node, module.regions[node.regions[0]])


def _check_call(node: Node, body: Region) -> None:
    missing = len(body.parameters) - len(node.operands)  # a call gives no constants
    if missing not in (0, body.constants) or len(node.results) != len(body.results):
        raise ValueError(f"{node.id!r} has other values than its body")
