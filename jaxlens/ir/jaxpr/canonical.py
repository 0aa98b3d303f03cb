"""A canonical text of a jaxpr, independent of names of variables and functions, and of addresses.

It has the operations with their parameters, literals and types, and the data flow; it has no names,
source lines, name stacks and addresses of objects. Captured arrays are inputs here; their contents
are in StableHLO.
"""

import re
from collections.abc import Iterator

from jaxlens.ir.graph import Module, Region

ADDRESS = re.compile(r" at 0x[0-9a-f]+|0x[0-9a-f]{6,}")
# Parameters that name functions and bodies, whose contents are written out.
NAMING = frozenset({"name", "debug_info", "call_jaxpr", "jvp_jaxpr_fun", "jvp", "fwd", "bwd"})
_DEFINED = re.compile(r"func\.func (?:public |private )?@([\w.\"$-]+)")
_SYMBOL = re.compile(r"@([\w.$-]+|\"[^\"]*\")")
_MODULE = re.compile(r"\Amodule @\S+")
_LABEL = re.compile(r'(jax\.result_info = )"[^"]*"')


def jaxpr_lines(module: Module) -> Iterator[str]:
    """The lines of the text, body by body."""
    bodies = {name: f"b{n}" for n, name in enumerate(module.regions)}
    for region in module.regions.values():
        yield from _region(region, bodies)


def _region(region: Region, bodies: dict[str, str]) -> Iterator[str]:
    names = {value.name: f"v{n}" for n, value in enumerate(region.parameters)}
    types = " ".join(str(value.type) for value in region.parameters)
    yield f"{bodies[region.name]}({types})"
    for node in region.nodes:
        read = " ".join(names.get(name, name) for name in node.operands)
        for value in node.results:
            names[value.name] = f"v{len(names)}"
        results = " ".join(f"{names[value.name]}:{value.type}" for value in node.results)
        attrs = (
            f"{name}={ADDRESS.sub('', text)}"
            for name, text in node.attrs.items()
            if name not in NAMING and not any(inner in text for inner in node.regions)
        )
        called = (bodies[name] for name in node.regions if name in bodies)
        yield f"{results} = {node.opcode}[{' '.join([*attrs, *called])}] {read}"
    yield "return " + " ".join(names.get(name, name) for name in region.results)


def stablehlo_text(text: str) -> str:
    """StableHLO as printed, its functions renamed to numbers, without pytree paths of results."""
    text = _LABEL.sub(r'\1""', text)
    numbers = {name: f"@f{n}" for n, name in enumerate(_DEFINED.findall(text))}
    renamed = _SYMBOL.sub(lambda match: numbers.get(match[1], match[0]), text)
    return _MODULE.sub("module", renamed)
