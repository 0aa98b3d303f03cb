"""Traces a function with ever more of its transforms, itself first."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from jaxlens import compat
from jaxlens.call import core_program
from jaxlens.call.arguments.written_shapes import abstract
from jaxlens.call.call import is_plain
from jaxlens.call.traceable import prepare
from jaxlens.call.transforms import axis_per_argument
from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.stages.driver import LiveDriver, prepared

_Rung = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], str]
"""A function with some of its transforms, its arguments, and its outermost transform, "" for none.

Arguments that are not batched on this rung are shapes.
"""


def _rungs(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[_Rung]:
    """Returns the rungs of the ladder of transforms, the plain function first.

    Args:
        f: A function with transforms of JAX, of `jaxlens.core` or of a magic.
        args: Its positional arguments; only shapes and dtypes of arrays are read.
        kwargs: Its keyword arguments, likewise.

    Raises:
        UnavailableError: It has no transform that can be removed.
    """
    ladder: list[_Rung] = []
    static: dict[str, Any] = {}
    fixed: dict[str, Any] = {}
    while isinstance(f, functools.partial):
        fixed = {**{k: v for k, v in f.keywords.items() if is_plain(v)}, **fixed}
        kwargs = {**{k: v for k, v in f.keywords.items() if k not in fixed}, **kwargs}
        f, args = f.func, (*f.args, *args)
    while True:
        name = _transform(f)
        rung = functools.partial(f, **fixed) if fixed else f
        static = static or _static(f)
        traced = _traceable(rung, name, static)
        ladder.append((traced, args, kwargs, name))
        inner = compat.wrapped(f)
        if not name or inner is None:
            break
        if name == "vmap":
            options = compat.settings(f)
            axes = axis_per_argument(options.get("in_axes", 0), len(args))
            args = tuple(_example(arg, axis) for arg, axis in zip(args, axes, strict=True))
            kwargs = {key: _example(value, 0) for key, value in kwargs.items()}
        elif name == "jvp":
            kwargs = {key: value for key, value in kwargs.items() if key != "tangents"}
        f = inner
    if len(ladder) == 1:
        raise UnavailableError(
            "a ladder needs a transformed function, such as jax.vmap(jax.grad(f)): put "
            "--grad, --vmap, --jvp or --jit before --ladder; of a step that transforms within, ask "
            "for what it transforms: jax.grad(loss), not step"
        )
    return ladder[::-1]


def _traceable(
    f: Callable[..., Any], transform: str, static: Mapping[str, Any]
) -> Callable[..., Any]:
    """Returns the function to trace for a rung.

    A jitted function gets a caller, whose jaxpr then contains the jit eqn. Static arguments stay
    static.

    Args:
        f: The function.
        transform: Its outermost transform.
        static: static_argnums and static_argnames of it or of an outer jit.
    """
    if transform != "jit" and not static:
        return f

    @functools.wraps(f)
    def caller(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs)

    return jax.jit(caller, **static) if static else caller


def _transform(f: Any) -> str:
    """Returns the name of the outermost transform, "" for none."""
    if compat.jit_parts(f) is not None:
        return "jit"
    if compat.is_checkpoint(f):
        return "checkpoint"
    return compat.transform_name(f) or core_program.transform(f) or getattr(f, "_jaxlens", "")


def _static(f: Any) -> dict[str, Any]:
    """Returns the static_argnums and static_argnames of a jit, as keyword arguments."""
    parts = compat.jit_parts(f)
    if parts is None:
        return {}
    options = {name: getattr(parts[1], name) for name in ("static_argnums", "static_argnames")}
    return {name: value for name, value in options.items() if value}


def _example(arg: Any, axes: Any) -> Any:
    """Returns one example of an argument; `axes` may be a pytree prefix, as in `in_axes`."""

    def example(axis: Any, part: Any) -> Any:
        if axis is None:
            return part
        return jax.tree_util.tree_map(lambda leaf: leaf_example(leaf, axis), part)

    def leaf_example(leaf: Any, axis: int) -> Any:
        shape = list(np.shape(leaf))
        if not shape:
            return leaf
        del shape[axis]
        return abstract(tuple(shape), leaf.dtype)

    return jax.tree_util.tree_map(example, axes, arg, is_leaf=lambda axis: axis is None)


def rungs_of(capture: Capture, live: LiveDriver) -> tuple[Capture, ...]:
    """Returns captures of a function under more and more of its transforms, itself first.

    `vmap(grad(loss))` gives captures of `loss`, `grad(loss)` and `vmap(grad(loss))`. A rung whose
    outermost transform is jit is traced through a caller, so that its jaxpr shows the jit eqn.

    Raises:
        UnavailableError: The function has no transform, was made for a trial, or the capture is
            not of a live call.
    """
    captures = []
    transforms: tuple[str, ...] = ()
    with live.staging.as_called():
        opened, of = live.staging.opened, live.staging.call
        for function, args, kwargs, transform in _rungs(
            opened.function, opened.args, opened.kwargs
        ):
            transforms = (transform, *transforms) if transform else transforms
            # Whether the core traces it cannot be detected from shapes.
            call = prepare(function, args, kwargs, of.name, of.core is not None)
            call = replace(call, tracings=of.tracings)
            captures.append(Capture(*prepared(call, None, transforms)))
    if transforms == capture.program.transforms:  # else its rung shows a jit
        captures[-1] = capture
    return tuple(captures)
