"""The transforms and modules that an equation or op is of, read from its name stack.

JAX writes a transform around the part of the name stack that it was applied to:
`jit(step)/transpose(jvp(layer))/mul` was traced in `layer`, differentiated by `jvp` and then
transposed. Named scopes, loops and calls are parts without brackets.

A module is a named scope (Flax Linen, Haiku, `jax.named_scope`) or a call of an object's `__call__`
(the user's, of Equinox or Flax NNX). That has its attribute path where the call was traced by
jaxlens (`stages/trace/modules.py`); elsewhere the line that calls it identifies it.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile

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
RECOMPUTED = "rematted_computation"  # the part of what `jax.checkpoint` computes again
# Transforms by the parts without brackets, and by the primitives, that denote them.
_NAMES = {
    "remat": "remat",
    "remat2": "remat",
    "checkpoint": "remat",
    RECOMPUTED: "remat",
    "custom_jvp_call": "custom_jvp",
    "custom_vjp_call": "custom_vjp",
    "shard_map": "shard_map",
}
# Not the end of an einsum, whose name is its subscripts: `bij,bjk->bik`.
_MODULE = re.compile(r"(?<![\w.,>])[\w.~]+(?=[/)]|$)")
_JIT = re.compile(r"(?<![\w.])p?jit\([^()]*\)/?")
# Words that JAX puts into name stacks for its own calls.
_OF_JAX = re.compile(
    "while|body|cond|scan|checkpoint|rematted_computation|branch_.*|eval_jaxpr|shard_map|"
    "(closed|core|custom_jvp|custom_vjp|pallas)_call"
)
_CALL = ".__call__"
# Where libraries have layers: what else they call is a wrapper, a handler or a metaclass.
LAYERS = re.compile(r"\b(equinox/nn|flax/(linen|nnx/(nn|helpers)))\b")
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


def around_calls(transforms: tuple[str, ...], opcode: str) -> tuple[str, ...]:
    """Returns the transforms around an equation's bodies: its own, and itself if it is one."""
    kind = _NAMES.get(opcode)
    return tuple(dict.fromkeys((*transforms, kind))) if kind else transforms


def is_module(scope: str) -> bool:
    """Whether a named scope can be that of a module: not JAX's word, nor an einsum's subscripts."""
    return _MODULE.fullmatch(scope) is not None and not _OF_JAX.fullmatch(scope)


def module_path(
    scope: str, spans: Sequence[Span], modules: tuple[str, ...] = ()
) -> tuple[tuple[str, ...], bool]:
    """Returns the module that an equation or instruction belongs to, and whether it is backward.

    Args:
        scope: Its name stack.
        spans: The frames that made it, innermost first.
        modules: The modules that were called, where that is known (`Node.modules`).
    """
    backward = "transpose(" in scope
    if modules:
        return modules, backward
    names = [n for n in _MODULE.findall(_JIT.sub("", scope)) if not _OF_JAX.fullmatch(n)]
    if any("." not in name for name in names):
        return tuple(names), backward
    path: list[str] = []
    caller: Span | None = None
    bound: Span | None = None  # the line that calls a method of an Equinox module
    # XLA joins the frames of a loop or a window with those of its body: they start again.
    start = spans.index(spans[-1]) if spans else 0
    for span in reversed(spans[: start + 1]):
        if span.function.endswith(_CALL):
            name = span.function.removesuffix(_CALL).rpartition(".")[2]
            if not span.library or LAYERS.search(span.file):
                path.append(f"{name} ({bound or caller})" if caller else name)
                bound = None
            elif name == "BoundMethod":
                bound = caller
        caller = span
    return tuple(path) or tuple(names), backward


class EquationModules:
    """The module of each equation of a jaxpr.

    Attributes:
        named: Whether called modules were named while it was traced; then frames say no more.
    """

    def __init__(self, jaxpr: Module) -> None:
        self._nodes = {node.id: node for node in jaxpr.nodes()}
        self.named = any(node.modules for node in self._nodes.values())
        self._around = self._outer(jaxpr) if self.named else {}

    def _outer(self, jaxpr: Module) -> Mapping[str, tuple[str, ...]]:
        """Returns the modules that all calls of an equation's body are in, by equation."""
        bodies: dict[str, tuple[str, ...]] = {}
        around: dict[str, tuple[str, ...]] = {}
        for region in jaxpr.regions.values():  # callers before callees
            outer = bodies.get(region.name, ())
            for node in region.nodes:
                around[node.id] = outer
                path = nested_path(outer, node.modules)
                for body in node.regions:
                    both = zip(bodies.get(body, path), path, strict=False)
                    bodies[body] = tuple(a for a, _ in takewhile(lambda p: p[0] == p[1], both))
        return around

    def own(self, node: Node) -> tuple[tuple[str, ...], bool]:
        """Returns the module of an equation without those of the calls around it."""
        return module_path(node.scope, () if self.named else node.spans, node.modules)

    def within(self, path: Sequence[str]) -> tuple[tuple[str, ...], bool]:
        """Returns the module of an equation within calls, and whether it is backward.

        Args:
            path: Ids of the calls that lead to it, outermost first, and of the equation; the
                outermost calls may be missing.
        """
        whole = self._around.get(path[0], ())
        backward = False
        for step in path:
            inner, back = self.own(self._nodes[step])
            whole = nested_path(whole, inner)
            backward |= back
        return whole, backward


def nested_path(outer: tuple[str, ...], inner: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the whole module path of what is in a body, from its call's and its own.

    A body's frames begin with those of its call, its scopes do not.
    """
    return inner if inner[: len(outer)] == outer else (*outer, *inner)


def module_text(path: Sequence[str]) -> str:
    """Returns `Net / Block_0 / Dense_1`, and of attribute paths the longest: `model.blocks[0]`."""
    inner = [*path[1:], ""]
    longest = (
        name
        for name, longer in zip(path, inner, strict=False)
        if not longer.startswith((f"{name}.", f"{name}["))
    )
    return " / ".join(longest)
