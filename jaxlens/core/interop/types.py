"""Types and values between JAX and the core."""

from collections.abc import Iterable
from functools import cache, partial
from typing import Any

import jax
from jax import tree_util

from jaxlens.core.kernel.interpreter import NUMBERS, Value, aval_of
from jaxlens.core.kernel.types import ShapedArray, canonical, is_key
from jaxlens.core.transforms.trees import Container


@cache
def _key_dtype() -> Any:
    return jax.eval_shape(partial(jax.random.key, impl="threefry2x32"), 0).dtype


def is_array(leaf: Any, numbers: bool = True) -> bool:
    """Whether JAX traces a leaf of the arguments, `numbers` of Python too; else it is compared."""
    if isinstance(leaf, Value):
        return True
    typed = hasattr(leaf, "shape") and hasattr(leaf, "dtype") and not isinstance(leaf, type)
    return typed or (numbers and isinstance(leaf, NUMBERS))


def compared(leaf: Any) -> Any:
    """Returns what is compared of a leaf that is not traced: 1, 1.0 and True are three."""
    if isinstance(leaf, bool | int):
        return type(leaf), leaf
    return (type(leaf), repr(leaf)) if isinstance(leaf, NUMBERS) else leaf  # 0.0 and -0.0 are two


def jax_type(value: Any) -> Any:
    """Returns JAX's type of an array, a number, or a type."""
    aval = aval_of(value)
    struct: Any = jax.ShapeDtypeStruct
    return struct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def type_of(aval: Any) -> ShapedArray:
    """Returns the core's type for JAX's.

    Raises:
        TypeError: It is that of a key of other random numbers than the core's.
    """
    if is_key(aval.dtype) and aval.dtype != _key_dtype():
        raise TypeError(
            f"jaxlens.core has the random numbers of {_key_dtype()}, not of {aval.dtype}."
        )
    return ShapedArray(aval.shape, canonical(aval.dtype), aval.weak_type)


# ---- containers that are registered with JAX ----------------------------------------------------


def container_of(x: Any) -> Container | None:
    """Returns how JAX flattens an object, by one level; None if it is a leaf."""
    return None if tree_util.all_leaves([x]) else _BY_JAX


def _opened(x: Any) -> tuple[list[Any], Any]:
    children, level = tree_util.tree_flatten(x, is_leaf=lambda child: child is not x)
    return children, level


def _keys(level: Any, count: int) -> Iterable[str]:
    pairs = tree_util.tree_flatten_with_path(level.unflatten(range(count)))[0]
    return (str(path[0]) for path, _ in pairs)


_BY_JAX = Container(_opened, lambda level, xs: level.unflatten(xs), _keys)
