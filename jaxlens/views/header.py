"""The first line of every output: the function, its arguments, and the target."""

import re
from collections.abc import Sequence
from itertools import groupby

from jaxlens.ir.facts import Input, Program, Static, Target
from jaxlens.report import amount, count

_MOST = 8  # inputs named one by one
_EACH = 4  # arrays of one argument named one by one, where there are more in all
_STATIC = 60  # characters of a static value
_UNJITTED = "under jit (not jitted, it runs op by op)"
# XLA autotunes by measuring candidates on the GPU.
_UNTUNED = ": autotuning is off, a real one's program may differ"


def header_line(program: Program) -> str:
    """`grad(loss)(params, x) with params['w'] f32[8,4], x f32[8]; n=3 static; on cpu`."""
    name = program.name
    for transform in reversed(program.transforms):
        name = f"{transform}({name})"
    roots = list(dict.fromkeys(map(root_name, [i.name for i in program.inputs])))
    call = name if name == "expression" else f"{name}({', '.join(roots)})"
    parts = [call]
    if program.inputs:
        parts.append(f"with {_inputs(program.inputs)}")
    elif name != "expression":
        parts.append("without array inputs")
    if program.statics:
        parts.append(f"and static {', '.join(map(_static, program.statics))}")
    call = " ".join([*parts, where(program.target)])
    asides = [_UNJITTED if program.unjitted else "", program.origin]
    return ", ".join([call, *program.flags, *filter(None, asides)])


def where(target: Target) -> str:
    """ "on cpu", "on 8 x NVIDIA H200 (gpu)", "for TPU v5e (tpu), which is not here"."""
    kind = target.platform
    if not kind:
        return "for a device that is not named"
    if target.kind and target.kind.lower() != target.platform:
        kind = f"{target.kind} ({target.platform})"
    if target.devices > 1:
        kind = f"{target.devices} x {kind}"
    if not target.absent:
        return f"on {kind}"
    return f"for {kind}, which is not here{_UNTUNED if target.platform == 'gpu' else ''}"


def root_name(name: str) -> str:
    """ "params" for "params['w']"."""
    match = re.match(r"\**\w+", name)
    return match.group(0) if match else name


def _inputs(inputs: Sequence[Input]) -> str:
    if len(inputs) <= _MOST:
        return ", ".join(map(_one, inputs))
    parts: list[str] = []
    for root, group in groupby(inputs, lambda i: root_name(i.name)):
        leaves = list(group)
        if len(leaves) <= _EACH:
            parts += map(_one, leaves)
            continue
        sizes = [leaf.type.bytes for leaf in leaves]
        size = amount(sum(s for s in sizes if s is not None)) if None not in sizes else "unknown"
        donated = ", donated" if all(leaf.donated for leaf in leaves) else ""
        parts.append(f"{root} ({count(len(leaves), 'array')}, {size}{donated})")
    return ", ".join(parts)


def _one(leaf: Input) -> str:
    marks = [mark for mark in ("donated" if leaf.donated else "", leaf.sharding) if mark]
    return f"{leaf.name} {leaf.type}" + (f" ({', '.join(marks)})" if marks else "")


def _static(static: Static) -> str:
    cut = "..." if len(static.text) > _STATIC else ""
    return f"{static.name}={static.text[:_STATIC]}{cut}"
