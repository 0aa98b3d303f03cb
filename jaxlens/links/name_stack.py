"""Which transforms made an equation or op, read from its scope: "jvp", "transpose", "vmap", ...

JAX writes a transform round the part of the name stack that it was applied to:
`jit(step)/transpose(jvp(layer))/mul` was traced in `layer`, differentiated by `jvp` and then
transposed. Scopes that the user named, loops and calls stand there as plain words.
"""

import re
from collections.abc import Mapping

from jaxlens.ir.graph import Module, Node, Span

TRANSFORMS: Mapping[str, str] = {
    "jvp": "differentiated forward",
    "transpose": "part of the backward pass",
    "vmap": "batched",
    "shard_map": "run on every device",
    "remat": "computed again for the backward pass, instead of kept",
    "custom_jvp": "with a derivative of its own",
    "custom_vjp": "with a derivative of its own",
}
# What stands for them in scopes without brackets, and as primitives.
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
    """The transforms in a scope, outermost first, each once where several parts repeat them.

    `jit(f)/transpose(jvp(vmap(g)))/mul` gives ("transpose", "jvp", "vmap").
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
    """The transforms that made each equation, those of the calls around it first."""
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
    """The transforms round what an equation calls: those that made it, and itself if it is one."""
    kind = _NAMES.get(opcode)
    return tuple(dict.fromkeys((*transforms, kind))) if kind else transforms


def is_backward(node: Node) -> bool:
    """Whether the backward pass added an equation or op."""
    return "transpose(" in node.scope


def forward_text(node: Node) -> Span | None:
    """The forward text that a backward equation came from; None for any other equation.

    JAX gives an equation of the backward pass the frames of the operation that it is the
    derivative of, so its span is that text.
    """
    return node.owner if is_backward(node) else None
