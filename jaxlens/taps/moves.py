"""What equations that only move elements do, on arrays of element numbers.

Each rule does to an array of any integers what the primitive does to the array's elements.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxlens.ir.graph import Node

Ids = npt.NDArray[np.int64]

COMPUTED = -1  # an element that depends on no input
PADDING = -2  # a zero that `pad` put there
SAME = frozenset(
    "copy copy_p stop_gradient convert_element_type reduce_precision optimization_barrier "
    "device_put sharding_constraint layout_constraint mesh_cast reshard name pvary pbroadcast "
    "bitcast_convert_type".split()
)


def moved(node: Node, operands: Sequence[Ids], shapes: Sequence[tuple[int, ...]]) -> list[Ids]:
    """Returns the results of an equation that moves elements.

    Args:
        node: The equation.
        operands: Its operands.
        shapes: Shapes of its results.

    Raises:
        LookupError: It computes, or which elements it takes is known only when it runs.
    """
    name = node.opcode
    if name in SAME and all(a.shape == shape for a, shape in zip(operands, shapes, strict=True)):
        return list(operands)
    return [
        result.reshape(shape)
        for result, shape in zip(_MOVES[name](node, operands), shapes, strict=True)
    ]


def attribute(node: Node, name: str) -> tuple[int, ...]:
    """Returns a parameter that is a tuple of integers, or one integer; () where it is None."""
    value = ast.literal_eval(node.attrs[name])
    return () if value is None else value if isinstance(value, tuple) else (value,)


def _slice(node: Node, operands: Sequence[Ids]) -> list[Ids]:
    starts, limits = attribute(node, "start_indices"), attribute(node, "limit_indices")
    strides = attribute(node, "strides") or (1,) * len(starts)
    return [operands[0][tuple(map(slice, starts, limits, strides))]]


def _dynamic_slice(node: Node, operands: Sequence[Ids]) -> list[Ids]:
    shape = attribute(node, "slice_sizes")
    starts = [int(text.partition(":")[0]) for text in node.operands[1 : 1 + len(shape)]]
    sizes = operands[0].shape
    starts = [
        min(max(start + size * (start < 0), 0), size - length)
        for start, size, length in zip(starts, sizes, shape, strict=True)
    ]
    return [operands[0][tuple(slice(s, s + n) for s, n in zip(starts, shape, strict=True))]]


def _pad(node: Node, operands: Sequence[Ids]) -> list[Ids]:
    array, value = operands[0], operands[1].reshape(-1)[:1]
    if value[0] == COMPUTED and node.operands[1].partition(":")[0] in ("0", "0.0", "False"):
        value = np.array([PADDING])
    shape: Any = node.results[0].type.shape
    config = ast.literal_eval(node.attrs["padding_config"])
    spread = zip(config, array.shape, strict=True)
    places = [low + np.arange(size) * (inside + 1) for (low, _, inside), size in spread]
    kept = [(place >= 0) & (place < size) for place, size in zip(places, shape, strict=True)]
    padded = np.full(shape, value[0])
    inside = (place[keep] for place, keep in zip(places, kept, strict=True))
    padded[np.ix_(*inside)] = array[np.ix_(*kept)]
    return [padded]


def _broadcast(node: Node, operands: Sequence[Ids]) -> list[Ids]:
    shape, axes = attribute(node, "shape"), attribute(node, "broadcast_dimensions")
    placed = [1] * len(shape)
    for axis, size in zip(axes, operands[0].shape, strict=True):
        placed[axis] = size
    return [np.broadcast_to(operands[0].reshape(placed), shape)]


def _split(node: Node, operands: Sequence[Ids]) -> list[Ids]:
    ends = np.cumsum(attribute(node, "sizes"))[:-1]
    return np.split(operands[0], ends, *attribute(node, "axis"))


def _unstack(node: Node, operands: Sequence[Ids]) -> list[Ids]:
    axis = attribute(node, "axis")[0]
    return [np.asarray(np.take(operands[0], n, axis)) for n in range(len(node.results))]


def _reshape(node: Node, operands: Sequence[Ids]) -> list[Ids]:
    if node.attrs.get("dimensions", "None") != "None":
        raise LookupError("a reshape that transposes")
    return [operands[0]]


_MOVES: Mapping[str, Callable[[Node, Sequence[Ids]], list[Ids]]] = {
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "pad": _pad,
    "broadcast_in_dim": _broadcast,
    "split": _split,
    "unstack": _unstack,
    "reshape": _reshape,
    "squeeze": lambda node, operands: [operands[0]],
    "expand_dims": lambda node, operands: [operands[0]],
    "transpose": lambda node, operands: [operands[0].transpose(attribute(node, "permutation"))],
    "rev": lambda node, operands: [np.flip(operands[0], attribute(node, "dimensions"))],
    "concatenate": lambda node, operands: [
        np.concatenate(operands, axis=attribute(node, "dimension")[0])
    ],
}
