"""What lenses and views rely on in a program, checked once, where a file's is read.

The parts of a file can come from several programs or be changed by hand. `check_calls` checks the
calls, and this the rest: names are unique, and an equation or instruction has what its kind needs.
"""

import re
from collections.abc import Mapping
from itertools import chain

from jaxlens.ir.graph import Module, Node, Region, check_calls

_CALLS = frozenset({"jit", "pjit", "closed_call", "scan"})  # in a jaxpr, with the body's values
_NUMBER = re.compile(r"\d{1,18}")
_NUMBERS: Mapping[str, tuple[str, ...]] = {
    "scan": ("length", "num_carry", "num_consts"),
    "while": ("cond_nconsts", "body_nconsts"),
    "get-tuple-element": ("index",),
}
_OPERANDS: Mapping[str, int] = {
    opcode: least
    for least, opcodes in {
        1: "bitcast broadcast conditional convert copy copy-done copy-start dynamic-slice "
        "get-tuple-element opt-barrier reshape slice transpose while",
        2: "convolution dot dynamic-update-slice gather pad reduce",
        3: "scatter",
    }.items()
    for opcode in opcodes.split()
}
_BODIES: Mapping[str, int] = {"fusion": 1, "while": 2, "conditional": 1, "reduce": 1, "scatter": 1}


def check(module: Module) -> None:
    """Checks a module of a file.

    Raises:
        ValueError: It breaks a rule.
    """
    check_calls(module)
    ids = [node.id for node in module.nodes()]
    if len(set(ids)) < len(ids):
        raise ValueError("two of its nodes have one id")
    if module.stage in ("jaxpr", "stablehlo"):
        for region in module.regions.values():
            _check_values(module, region)
    elif module.stage not in ("llvm", "asm"):
        for node in module.nodes():
            few = len(node.operands) < _OPERANDS.get(node.opcode, 0)
            if few or len(node.regions) < _BODIES.get(node.opcode, 0):
                raise ValueError(f"{node.id!r} lacks an operand or a computation")
            _check_numbers(node)


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
        _check_numbers(node)
        body = module.regions[node.regions[0]] if node.regions else region
        if node.opcode in _CALLS:
            given = len(body.parameters) - len(node.operands)
            if given not in (0, body.constants) or len(node.results) != len(body.results):
                raise ValueError(f"{node.id!r} has other values than its body")


def _check_numbers(node: Node) -> None:
    if node.opcode in _NUMBERS and (node.opcode != "while" or "cond_jaxpr" in node.attrs):
        for name in _NUMBERS[node.opcode]:
            if not _NUMBER.fullmatch(node.attrs.get(name, "")):
                raise ValueError(f"{node.id!r} has no number {name!r}")
