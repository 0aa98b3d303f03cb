"""Batching: one program for many examples, written for one.

`batch_flat` runs f once, on tracers that look like one example and hold all of them, along one axis
of an array. The batch rule of a primitive does its work for all examples at once: most primitives
only have to keep track of that axis, a matrix product gets one more batch dimension.

    reduce_sum over axis 0 of f32[3]        of all examples f32[5,3]: reduce_sum over axis 1
    add of x: f32[] and y: f32[]            x: f32[5] and a shared y: f32[] is repeated to f32[5]

The result is no loop. It is the program that one would have written for the whole batch.

In JAX: jax/_src/interpreters/batching.py and "Automatic vectorization" (docs.jax.dev).
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

from jaxlens.core.kernel.basics import Dim
from jaxlens.core.kernel.interpreter import (
    Interpreter,
    Primitive,
    Tracer,
    aval_of,
    interpreting,
    observer,
)
from jaxlens.core.kernel.jaxpr import subjaxprs
from jaxlens.core.kernel.trace import Flat
from jaxlens.core.kernel.types import setting


class BatchTracer(Tracer):
    """A value for all examples, which looks like the value for one.

    Attributes:
        value: The array of all examples.
        dim: Its axis that counts them.
    """

    __slots__ = ("dim", "value")

    def __init__(self, interpreter: "Batch", value: Any, dim: int) -> None:
        self.interpreter = interpreter
        self.value = value
        self.dim = dim
        whole = aval_of(value)
        self.aval = whole.update(shape=whole.shape[:dim] + whole.shape[dim + 1 :])


class Batch(Interpreter):
    """Applies primitives to all examples by the batch rules, in the interpreter below.

    Attributes:
        size: The number of examples.
        name: What collectives such as `psum` call their axis, if it has a name.
    """

    def __init__(self, size: int, name: str | None = None) -> None:
        self.size = size
        self.name = name

    def split(self, value: Any) -> tuple[Any, Dim]:
        """Returns the array of all examples and its axis; None for what all examples share."""
        if type(value) is BatchTracer and value.interpreter is self:
            return value.value, value.dim
        return value, None

    def join(self, value: Any, dim: Dim) -> Any:
        """Returns a tracer of all examples; the value itself if they share it."""
        return value if dim is None else BatchTracer(self, value, dim)

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        values, dims = zip(*map(self.split, args), strict=True) if args else ((), ())
        with interpreting(self.parent), mapping(self.name):
            if all(dim is None for dim in dims) and not _mentions(params, self.name):
                return primitive.bind(*values, **params)
            observer.emit("rule", primitive.name, rule="batch")
            pair = primitive.batch(self.size, values, dims, **params)
        return primitive.joined("batch", "(result, dim)", pair, self.join)


def batch_flat(
    f: Flat, size: int, values: Sequence[Any], dims: Sequence[Dim], name: str | None = None
) -> tuple[list[Any], list[Dim]]:
    """`vmap` of a function of flat lists."""
    interpreter = Batch(size, name)
    with interpreting(interpreter):
        results = f(*map(interpreter.join, values, dims))
    pairs = [interpreter.split(result) for result in results]
    interpreter.done = True
    return [value for value, _ in pairs], [dim for _, dim in pairs]


# ---- named axes: what collectives such as `psum` refer to ---------------------------------------

_mapped: ContextVar[str | None] = ContextVar("mapped", default=None)
mapped_axis = _mapped.get  # the name of the axis that the current batch rule is for


def mapping(name: str | None) -> AbstractContextManager[None]:
    """Within it a batch rule is applied for the examples along an axis of this name."""
    return setting(_mapped, name)


def _mentions(params: dict[str, Any], name: str | None) -> bool:
    """Whether an equation with these parameters is, or contains, a collective over an axis."""
    return name is not None and (
        name in params.get("axes", ())
        or any(_mentions(eqn.params, name) for sub in subjaxprs(params) for eqn in sub.eqns)
    )
