"""Applies a list of transforms to a function, and adapts its arguments to them.

For `vmap`, a batch axis is inserted into the shapes of the arguments that it maps over.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jaxlens.errors import OptionError
from jaxlens.stages.arguments import pytrees
from jaxlens.stages.arguments.inputs import signature_of
from jaxlens.stages.arguments.pytrees import is_array
from jaxlens.stages.arguments.written_shapes import abstract
from jaxlens.stages.call.transforms import axes, axis_per_argument, transformed


@dataclass(frozen=True, slots=True)
class Put:
    """A transform to apply to a function.

    Attributes:
        name: "grad", "vmap", "jvp" or "jit".
        value: Its option, as on a magic's line: "0" for `--grad 0`, "0,None" for `--vmap`.
        size: Batch size of a `vmap`.
    """

    name: str
    value: str = ""
    size: int = 8


def composed(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], puts: Sequence[Put]
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Returns the transformed function and its arguments.

    Args:
        f: The untransformed function.
        args: Its positional arguments, for one example.
        kwargs: Its keyword arguments, likewise.
        puts: Transforms, outermost first.

    Raises:
        OptionError: A value does not fit the function.
    """
    pytrees.check_call(args, kwargs, signature_of(f))
    positional = tuple(args)
    for transform in reversed(puts):
        if transform.name == "vmap":
            positional = _batch(positional, axes(transform.value), transform.size)
            kwargs = {key: _with_axis(value, 0, transform.size) for key, value in kwargs.items()}
        f, kwargs = transformed(f, positional, kwargs, [(transform.name, transform.value)])
    return f, positional, kwargs


def _batch(args: tuple[Any, ...], in_axes: Any, size: int) -> tuple[Any, ...]:
    arg_axes = axis_per_argument(in_axes, len(args))
    if len(arg_axes) != len(args):
        raise OptionError(
            f"vmap takes an axis for each of {len(args)} arguments, got {len(arg_axes)}: "
            f"{','.join(['0'] * len(args))}"
        )
    if size < 1:
        raise OptionError(f"vmap takes 1 example or more, got {size}")
    return tuple(_with_axis(arg, axis, size) for arg, axis in zip(args, arg_axes, strict=True))


def _with_axis(arg: Any, axis: int | None, size: int) -> Any:
    if axis is None:
        return arg
    return jax.tree_util.tree_map(lambda leaf: _with_leaf_axis(leaf, axis, size), arg)


def _with_leaf_axis(leaf: Any, axis: int, size: int) -> Any:
    if not (
        is_array(leaf) or isinstance(leaf, bool | int | float | complex | jax.ShapeDtypeStruct)
    ):
        return leaf
    shape = list(np.shape(leaf))
    if not -len(shape) - 1 <= axis <= len(shape):
        raise OptionError(f"vmap: axis {axis} cannot be put into an array of shape {tuple(shape)}")
    shape.insert(axis if axis >= 0 else axis + len(shape) + 1, size)
    return abstract(tuple(shape), jax.dtypes.result_type(leaf))
