"""The transforms that produced an equation or op, read from its name stack: "jvp", "vmap", ...

JAX writes a transform around the part of the name stack that it was applied to:
`jit(step)/transpose(jvp(layer))/mul` was traced in `layer`, differentiated by `jvp` and then
transposed. Named scopes, loops and calls are parts without brackets.
"""

import re
from collections.abc import Mapping

from jaxlens.ir.graph import Module

TRANSFORMS: Mapping[str, str] = {
    "jvp": "differentiated forward",
    "transpose": "part of the backward pass",
    "vmap": "batched",
    "shard_map": "run on every device",
    "remat": "computed again for the backward pass, instead of kept",
    "custom_jvp": "with a derivative of its own",
    "custom_vjp": "with a derivative of its own",
}
# Transforms by the parts without brackets, and by the primitives, that denote them.
_NAMES = {
    "remat": "remat",
    "remat2": "remat",
    "checkpoint": "remat",
    "rematted_computation": "remat",
    "custom_jvp_call": "custom_jvp",
    "custom_vjp_call": "custom_vjp",
    "custom_vjp_call_jaxpr": "custom_vjp",
    "shard_map": "shard_map",
}
_WRAP = re.compile(r"(?<!\w)([A-Za-z_]\w*+)\(")


def transforms(scope: str) -> tuple[str, ...]:
    """Returns the transforms in a name stack, outermost first, each once.

    `jit(f)/transpose(jvp(vmap(g)))/mul` has ("transpose", "jvp", "vmap").
    """
    wrappers: dict[str, None] = {}
    for part in scope.split(";")[0].split("/"):
        if part.startswith(("jit(", "pjit(")):
            continue
        names = [name for name in _WRAP.findall(part) if name in TRANSFORMS]
        names = names or ([_NAMES[part]] if part in _NAMES else [])
        wrappers.update(dict.fromkeys(names))
    return tuple(wrappers)


def equation_transforms(jaxpr: Module) -> dict[str, tuple[str, ...]]:
    """Returns the transforms that produced each equation, those of the calls around it first."""
    around: dict[str, tuple[str, ...]] = {}
    transforms_of: dict[str, tuple[str, ...]] = {}
    memo: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
    for region in jaxpr.regions.values():  # callers before callees
        outer = around.get(region.name, ())
        for node in region.nodes:
            key = node.scope, outer
            if key not in memo:
                memo[key] = tuple(dict.fromkeys((*outer, *transforms(node.scope))))
            inner = memo[key]
            if inner:
                transforms_of[node.id] = inner
            for name in node.regions:
                around.setdefault(name, around_calls(inner, node.opcode))
    return transforms_of


def around_calls(transforms: tuple[str, ...], opcode: str) -> tuple[str, ...]:
    """Returns the transforms around an equation's bodies: its own, and itself if it is one."""
    kind = _NAMES.get(opcode)
    return tuple(dict.fromkeys((*transforms, kind))) if kind else transforms
