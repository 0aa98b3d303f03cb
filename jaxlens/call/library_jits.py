"""Finds the call of the `jax.jit` inside a library's jit: `nnx.jit`, `eqx.filter_jit`, `jax.pmap`.

The program that runs is that of the inner jitted function. Jitting the wrapper instead would drop
code: `nnx.jit` writes the new state into the model that it is passed, so the state is not a result
of the wrapper, and the code that computes it would be dead.
"""

import itertools
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax

from jaxlens import compat
from jaxlens.call import equinox_calls, isolate
from jaxlens.call.arguments import flax_models
from jaxlens.call.arguments.inputs import Leaf, leaves, root_names, signature_of, static_text
from jaxlens.call.call import Call
from jaxlens.call.numbered_call import ArrayLeaf, leaf_paths, named_leaves
from jaxlens.ir.facts import Static


@dataclass(frozen=True, slots=True)
class InnerCall:
    """The call of the jitted function inside a wrapper.

    Attributes:
        call: The jitted function and the arguments that the wrapper passes.
        function: The user's function.
        known: Whether a call of the wrapper would use this same jitted function object.
        within: Returns the context manager in which it must be traced.
        leaves: The leaves of its arguments with the user's names, in JAX's order.
        statics: The values that the wrapper makes static; None if only `jax.jit` does.
    """

    call: Call
    function: Any
    known: bool
    within: Callable[[], AbstractContextManager[Any]]
    leaves: list[Leaf]
    statics: tuple[Static, ...] | None

    @property
    def jit(self) -> str:
        """The wrapper's name in the user's text."""
        fun = getattr(self.call.function, "_fun", None)
        if equinox_calls.is_equinox(fun):
            return "eqx.filter_jit"
        is_flax = hasattr(fun, "ctxtag") or hasattr(fun, "update_shardings")
        return "nnx.jit" if is_flax else "jax.jit"

    def results(self, tree: Any, count: int) -> list[str]:
        """Returns the names of the program's results, also of those the wrapper does not return.

        Args:
            tree: Tree structure of the results.
            count: Number of results.
        """
        filled = tree.unflatten(range(count))
        fun = getattr(self.call.function, "_fun", None)
        if equinox_calls.is_equinox(fun):
            _, user, _ = filled
            return ["marker of filter_jit", *_paths("result", user)]
        if hasattr(fun, "ctxtag"):  # `nnx.jit`: the arguments' state, then the user's results
            args, kwargs, user = filled
            names = (*root_names(len(args), self.call.signature), *kwargs)
            states = zip(names, (*args, *kwargs.values()), strict=True)
            new = [path for name, state in states for path in _paths(f"new {name}", state)]
            return [*new, *_paths("result", user)]
        if hasattr(fun, "update_shardings"):
            written = flax_models.updates(filled) or []
            last = max((root for root, _ in written if isinstance(root, int)), default=-1)
            roots = root_names(last + 1, self.call.signature)
            own = _paths("result", filled[0])
            new = [f"new {roots[r] if isinstance(r, int) else r}{path}" for r, path in written]
            if len(own) + len(new) == count:
                return own + new
        return _paths("result", filled)


def inner_call(call: Call) -> InnerCall | None:
    """Returns the call of the jitted function inside a wrapper; nothing is traced.

    Args:
        call: Any call.

    Returns:
        The inner call; None if the function is no wrapper, or never lowers a jitted function.

    Raises:
        Exception: Any error of the wrapper for these arguments.
    """
    wrapper: Any = call.function
    if not compat.is_wrapper(wrapper):
        return None
    is_pmap = callable(getattr(wrapper, "__dict__", {}).get("lower"))
    with nullcontext() if is_pmap else isolate.untouched(isolate.context()):
        inner = _handed_over(call)
    parts = compat.jit_parts(inner[0]) if inner else None
    if inner is None or parts is None:
        return None
    (jitted, args, kwargs), (fun, info) = inner, parts
    signature = call.signature if hasattr(fun, "ctxtag") else signature_of(jitted)
    opened = Call(jitted, args, kwargs, signature)
    static_roots = {*info.static_argnums, *info.static_argnames}
    own = vars(wrapper).values() if hasattr(wrapper, "__dict__") else ()
    dynamic = [leaf for leaf in leaves(args, kwargs, signature) if leaf.root not in static_roots]
    names, statics, by_identity = _names(call, opened, fun, static_roots, dynamic)
    tag = getattr(fun, "ctxtag", None)
    update_context = getattr(sys.modules.get("flax.nnx"), "update_context", None)
    within = partial(update_context, tag) if tag is not None and update_context else nullcontext
    return InnerCall(
        replace(opened, names=tuple(names) if by_identity else ()),
        wrapper.__wrapped__,
        is_pmap or any(value is jitted for value in own),
        within,
        [replace(leaf, name=n, path=leaf.name) for leaf, n in zip(dynamic, names, strict=True)],
        statics,
    )


def _handed_over(call: Call) -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
    """Returns the jitted function inside a wrapper, and the arguments that it receives.

    Equinox treats a `jax.ShapeDtypeStruct` as a static value. So the wrapper is called with a
    tracer in place of each, and the shapes are put back into the arguments that it passes on.
    """
    wrapper = call.function
    flat: list[Any]
    flat, tree = jax.tree_util.tree_flatten((call.args, call.kwargs))
    shapes = {i: x for i, x in enumerate(flat) if isinstance(x, jax.ShapeDtypeStruct)}
    if not shapes or not type(wrapper).__module__.startswith("equinox."):
        return compat.handed_over(wrapper, call.args, call.kwargs)
    result = None

    def on_tracers(tracers: Sequence[Any]) -> None:
        nonlocal result
        of_tracer = dict(zip(map(id, tracers), shapes.values(), strict=True))
        values = {**dict(enumerate(flat)), **dict(zip(shapes, tracers, strict=True))}
        args, kwargs = jax.tree_util.tree_unflatten(tree, values.values())
        inner = compat.handed_over(wrapper, args, kwargs)
        if inner is not None:
            args, kwargs = jax.tree.map(lambda x: of_tracer.get(id(x), x), inner[1:])
            result = inner[0], args, kwargs

    jax.eval_shape(on_tracers, list(shapes.values()))
    return result


def _names(
    call: Call, inside: Call, fun: Any, static_roots: set[int | str], dynamic: Sequence[Leaf]
) -> tuple[list[str], tuple[Static, ...] | None, bool]:
    """Returns the user's names of the inner leaves, static values, and whether by identity.

    Names from containers also apply to the keys of earlier calls; names by identity do not.
    """
    if equinox_calls.is_equinox(fun):
        numbers = map(ArrayLeaf, itertools.count())
        arrays = jax.tree_util.tree_map(lambda _: next(numbers), inside.args[:2])
        args = (*arrays, *inside.args[2:])
        user = equinox_calls.user_call(replace(inside, function=fun, args=args))
        paths, static = named_leaves(user) if user is not None else ({}, {})
        if user is not None and len(paths) == len(dynamic):
            statics = (Static(name, static_text(value)) for name, value in static.items())
            return list(paths.values()), tuple(statics), False
    is_states = flax_models.is_states
    nodes = jax.tree_util.tree_leaves((inside.args, inside.kwargs), is_leaf=is_states)
    if any(map(is_states, nodes)):
        in_order = replace(inside, kwargs=dict(sorted(inside.kwargs.items())))
        arguments = in_order.split(static_roots)[1].items()
        names = [path for name, value in arguments for path in _paths(name, value)]
        if len(names) == len(dynamic):
            return names, None, False
    return _by_identity(call, dynamic), None, True


def _paths(root: str, tree: Any) -> list[str]:
    return [path for path, _ in leaf_paths(root, tree)]


def _by_identity(call: Call, inner: Sequence[Leaf]) -> list[str]:
    """Names the inner leaves by object identity, as a wrapper may pass them in other containers."""
    names: defaultdict[int, deque[str]] = defaultdict(deque)
    for leaf in leaves(call.args, call.kwargs, call.signature):
        names[id(leaf.value)].append(leaf.name)
    return [
        names[id(leaf.value)].popleft() if names[id(leaf.value)] else leaf.name for leaf in inner
    ]
