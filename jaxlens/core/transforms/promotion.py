"""NumPy's conventions: type promotion, broadcasting, negative axes.

Operands of different dtypes are promoted to one before they meet. The types form a lattice, and the
promoted type is the least one above all operands. Python's own scalars are weak types in it (`i*`,
`f*`, `c*`), below the sized types of their kind, so that they do not widen an array: bf16 and `f*`
meet in bf16, bf16 and f16 in f32.

In JAX: jax/_src/dtypes.py, "JAX type promotion semantics" (docs.jax.dev, jep/9407).
"""

from functools import cache
from itertools import pairwise

import numpy as np

from jaxlens.core.kernel.types import ShapedArray, canonical

_CHAINS = (  # from below to above
    "bool i* uint8 uint16 uint32 uint64 f* c* complex64 complex128",
    "i* int8 int16 int32 int64 f* bfloat16 float32 float64 complex128",
    "uint8 int16",
    "uint16 int32",
    "uint32 int64",
    "f* float16 float32 complex64",
)
_EDGES = {edge for chain in _CHAINS for edge in pairwise(chain.split())}
_SCALARS = {"i": "i*", "f": "f*", "c": "c*"}
_DEFAULT = {"i*": "int64", "f*": "float64", "c*": "complex128"}  # `canonical` makes them smaller


@cache
def _up(name: str) -> frozenset[str]:
    """Returns a node of the lattice and all nodes above it."""
    return frozenset({name}.union(*(_up(above) for below, above in _EDGES if below == name)))


@cache
def _promoted(types: tuple[tuple[np.dtype, bool], ...]) -> tuple[np.dtype, bool]:
    if len({dtype for dtype, _ in types}) == 1:  # f16 with weak f16 stays f16
        return types[0][0], all(weak for _, weak in types)
    nodes = [_SCALARS.get(d.kind, d.name) if weak else d.name for d, weak in types]
    common = frozenset.intersection(*map(_up, nodes))
    name = next(name for name in common if _up(name) == common)
    return np.dtype(_DEFAULT.get(name, name)), name in _DEFAULT


def promote(*avals: ShapedArray) -> tuple[np.dtype, bool]:
    """Returns the promoted dtype of values of these types, and whether it is weak."""
    dtype, weak = _promoted(tuple((a.dtype, a.weak_type) for a in avals))
    return canonical(dtype), weak


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape that these shapes broadcast to, as in NumPy.

    Raises:
        ValueError: An axis has two lengths, neither of them 1.
    """
    if len(set(shapes)) == 1:
        return shapes[0]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " and ".join(map(str, shapes))
        raise ValueError(
            f"Incompatible shapes for broadcasting: {listed}. Axes are aligned from the last; "
            f"each pair must be equal or one of them 1."
        ) from None


def axis_of(axis: int, ndim: int) -> int:
    """Returns an axis counted from the front."""
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {ndim}")
    return axis % ndim
