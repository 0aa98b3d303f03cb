"""Takes transforms off a function, one by one, with the arguments that what is inside would get.

`vmap(grad(loss))` on a batch holds `grad(loss)` on one example, and that holds `loss`. Nothing is
computed: an example is a shape.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jaxlens.errors import UnavailableError
from jaxlens.stages import compat, core_program
from jaxlens.stages.shapes import abstract


@dataclass(frozen=True, slots=True)
class Rung:
    """A function with arguments of its own.

    Attributes:
        function: Transformed less often than the rung above it.
        args: Positional arguments, shapes in the place of arrays.
        kwargs: Keyword arguments, likewise.
        transform: What was put on last: "vmap"; "" for the function itself.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    transform: str = ""


def rungs(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Rung]:
    """The ladder, the function itself first.

    Args:
        f: A function with transforms round it, JAX's, the core's or a magic's.
        args: Its positional arguments; only shapes and dtypes of arrays are read.
        kwargs: Its keyword arguments, likewise.

    Raises:
        UnavailableError: It has no transform that can be taken off.
    """
    found: list[Rung] = []
    while True:
        name = _name(f)
        found.append(Rung(f, args, kwargs, name))
        inner = getattr(f, "__wrapped__", None)
        if not name or inner is None:
            break
        if name == "vmap":
            axes = compat.settings(f).get("in_axes", 0)
            args = _examples(args, axes)
            kwargs = {key: _example(value, 0) for key, value in kwargs.items()}
        elif name == "jvp":
            kwargs = {key: value for key, value in kwargs.items() if key != "tangents"}
        f = inner
    if len(found) == 1:
        raise UnavailableError(
            "a ladder needs a transformed function, such as jax.vmap(jax.grad(f)): put "
            "--grad, --vmap, --jvp or --jit before --ladder, or transform it in the call"
        )
    return found[::-1]


def called(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls a jitted one, in whose jaxpr the call can be seen."""

    @functools.wraps(f)
    def caller(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs)

    return caller


def _name(f: Any) -> str:
    """What was put on last; a jit with static arguments is left on."""
    parts = compat.jit_parts(f)
    if parts is not None:
        info = parts[1]
        return "" if info.static_argnums or info.static_argnames else "jit"
    return compat.transform_name(f) or core_program.transform(f) or getattr(f, "_jaxlens", "")


def _examples(args: tuple[Any, ...], axes: Any) -> tuple[Any, ...]:
    if isinstance(axes, tuple | list):
        return tuple(_example(arg, axis) for arg, axis in zip(args, axes, strict=True))
    return tuple(_example(arg, axes) for arg in args)


def _example(arg: Any, axes: Any) -> Any:
    """One example of an argument; `axes` may name axes for parts of it, as in `in_axes`."""

    def one(axis: Any, part: Any) -> Any:
        if axis is None:
            return part
        return jax.tree_util.tree_map(lambda leaf: _less(leaf, axis), part)

    return jax.tree_util.tree_map(one, axes, arg, is_leaf=lambda axis: axis is None)


def _less(leaf: Any, axis: int) -> Any:
    shape = list(np.shape(leaf))
    if not shape:
        return leaf
    del shape[axis]
    return abstract(tuple(shape), leaf.dtype)
