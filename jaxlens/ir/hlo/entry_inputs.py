"""Inputs and results of a program of which there is only text: those of its entry."""

import re

from jaxlens.ir.facts import Input
from jaxlens.ir.graph import Module

_ALIASED = re.compile(r": ?\((\d{1,9}),")
_DONATED = ("tf.aliasing_output", "jax.buffer_donor")


def entry_inputs(module: Module) -> tuple[Input, ...]:
    """Inputs of a StableHLO or HLO module.

    JAX writes an argument's name ("params['w']") into the location of StableHLO's parameter, and
    into the metadata of HLO's; without it, the input has the name of the parameter.
    """
    parameters = module.body().parameters
    if module.stage == "stablehlo":
        texts = (module.attrs.get(f"{module.entry} {value.name}", "") for value in parameters)
        parts = (("", t) if t.startswith("{") else t.partition(" {")[::2] for t in texts)
        names = [(name, any(mark in attrs for mark in _DONATED)) for name, attrs in parts]
    else:
        names = _hlo_arguments(module)
    return tuple(
        Input(name or value.name, value.type, donated)
        for value, (name, donated) in zip(parameters, names, strict=True)
    )


def entry_outputs(module: Module) -> tuple[Input, ...]:
    """Results of a StableHLO or HLO module by position: the text has no tree structure."""
    body = module.body()
    known = body.types()
    types = [known[name] for name in body.results if name in known]
    if len(types) == 1 and not types[0].dtype:  # HLO's one root is a tuple of them
        types = list(types[0].parts)
    if len(types) == 1:
        return (Input("result", types[0]),)
    return tuple(Input(f"result[{i}]", kind) for i, kind in enumerate(types))


def _hlo_arguments(module: Module) -> list[tuple[str, bool]]:
    """Name and donation of each argument of HLO's entry."""
    nodes = {node.id: node for node in module.body().nodes if node.opcode == "parameter"}
    aliases = _ALIASED.findall(module.attrs.get("input_output_alias", ""))
    donors = re.findall(r"\((\d{1,9}),", module.attrs.get("buffer_donor", ""))
    donated = {int(number) for number in (*aliases, *donors)}
    names = []
    for number, value in enumerate(module.body().parameters):
        node = nodes.get(value.name)
        scope = node.scope if node is not None else ""
        names.append((scope if "/" not in scope else "", number in donated))
    return names
