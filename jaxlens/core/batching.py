"""Batching: one program for many examples, written for one.

`vmap(f)` runs f once on tracers that look like one example and hold them all, the examples along
one axis of an array. Each primitive has a rule that does its work for all of them at once: most
only have to keep the axis in the same place, a matrix product gets one more batch dimension. The
result is not a loop: it is the program that one would have written for the whole batch.

After "Automatic batching in JAX" (docs.jax.dev) and Autodidax.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from jaxlens.core import sources
from jaxlens.core.avals import Setting
from jaxlens.core.forward import forced
from jaxlens.core.jaxprs import ClosedJaxpr, subjaxprs
from jaxlens.core.primitives.shapes import axis_of, broadcast_leading, moveaxis
from jaxlens.core.signatures import arguments, types_of
from jaxlens.core.staging import as_function, flat, trace
from jaxlens.core.staging import axes as _axes
from jaxlens.core.tracers import (
    Interpreter,
    Primitive,
    Tracer,
    aval_of,
    current,
    interpreting,
    mapped_axis,
    mapping,
)
from jaxlens.core.trees import TreeDef, prefix_leaves, tree_flatten

Dim = int | None  # the axis that counts the examples; None: the same value for each


def naming(sizes: dict[str, int]) -> Setting:
    """While axes of these sizes have names that collectives can use."""
    return Setting(_axes, _axes.get() | sizes)


def axis_size(name: str) -> int:
    """The size of a named axis.

    Raises:
        NameError: No vmap, pmap or shard_map around has an axis of this name.
    """
    if name not in _axes.get():
        known = ", ".join(map(repr, _axes.get())) or "none"
        raise NameError(
            f"{sources.line()}: unbound axis name {name!r}; bound are: {known}. Name it in vmap, "
            f"pmap (axis_name=) or in the mesh of shard_map."
        )
    return _axes.get()[name]


class BatchTracer(Tracer):
    """All examples of a value, which looks like one."""

    __slots__ = ("dim", "value")

    def __init__(self, interpreter: "Batch", value: Any, dim: int) -> None:
        self.interpreter = interpreter
        self.value = value
        self.dim = dim
        whole = aval_of(value)
        self.aval = whole.update(shape=whole.shape[:dim] + whole.shape[dim + 1 :])

    def made(self) -> str:
        return self.value.made() if isinstance(self.value, Tracer) else "the arguments"


class Batch(Interpreter):
    """Does everything for all examples, by the batch rules, in the interpreter below.

    Attributes:
        size: How many examples there are.
        name: What collectives call their axis.
    """

    def __init__(self, parent: Interpreter, size: int, name: str | None = None) -> None:
        self.parent: Interpreter = parent
        self.size = size
        self.name = name

    def split(self, value: Any) -> tuple[Any, Dim]:
        """A value of all examples and the axis that counts them."""
        if type(value) is BatchTracer and value.interpreter is self:
            return value.value, value.dim
        return value, None

    def join(self, value: Any, dim: Dim) -> Any:
        """A tracer of all examples; the value itself where it is the same for each."""
        return value if dim is None else BatchTracer(self, value, dim)

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        values, dims = zip(*map(self.split, args), strict=True) if args else ((), ())
        over = self.name is not None and self.name in _axes_of(params)
        with interpreting(self.parent), mapping(self.name):
            if all(dim is None for dim in dims) and not (over or _inside(self.name, params)):
                return primitive.bind(*values, **params)
            if sources.listeners:
                sources.emit("rule", primitive.name, rule="batch")
            if over:
                params = params | {"over": self.name}
            results, out = primitive.batch(self.size, values, dims, **params)
        if primitive.multiple_results:
            return [self.join(*pair) for pair in zip(results, out, strict=True)]
        return self.join(results, out)


def _axes_of(params: dict[str, Any]) -> Sequence[str]:
    """The axes that a collective is over."""
    found: Sequence[str] = params.get("axis_name", params.get("axes", ()))
    return found


def _inside(name: str | None, params: dict[str, Any]) -> bool:
    """Whether there is a collective over an axis in a jaxpr in an equation's parameters."""
    return name is not None and any(
        name in _axes_of(eqn.params) or _inside(name, eqn.params)
        for sub in subjaxprs(params)
        for eqn in sub.eqns
    )


def to_front(size: int, value: Any, dim: Dim) -> Any:
    """All examples along the first axis, copies of the value where it is the same for each."""
    return broadcast_leading(value, size) if dim is None else moveaxis(value, dim, 0)


def batch_flat(
    f: Callable[..., Sequence[Any]],
    size: int,
    values: Sequence[Any],
    dims: Sequence[Dim],
    name: str | None = None,
) -> tuple[list[Any], list[Dim]]:
    """`vmap` of a function of flat lists."""
    interpreter = Batch(current(), size, name)
    with interpreting(interpreter), naming({name: size} if name else {}):
        results = f(*map(interpreter.join, values, dims))
    pairs = [interpreter.split(result) for result in results]
    interpreter.done = True
    return [value for value, _ in pairs], [dim for _, dim in pairs]


def batch_jaxpr(
    closed: ClosedJaxpr, size: int, batched: Sequence[bool], force: Sequence[bool] | None = None
) -> tuple[ClosedJaxpr, list[bool]]:
    """The jaxpr of a jaxpr for all examples, which the rules of calls and loops are made of.

    Args:
        closed: The jaxpr.
        size: How many examples there are.
        batched: Which parameters hold all examples, along their first axis.
        force: Which results must hold all examples even where they are the same for each.

    Returns:
        The jaxpr, and which results hold all examples, along their first axis.
    """
    dims: list[Dim] = [0 if has else None for has in batched]
    pairs = zip(closed.in_avals, batched, strict=True)
    avals = [aval.update(shape=(size, *aval.shape)) if has else aval for aval, has in pairs]
    name = mapped_axis()
    flags: list[bool] = []

    def whole(*args: Any) -> list[Any]:
        results, out = batch_flat(as_function(closed), size, args, dims, name)
        flags[:] = forced([dim is not None for dim in out], force)
        triples = zip(results, out, flags, strict=True)
        return [to_front(size, value, dim) if has else value for value, dim, has in triples]

    return trace(whole, avals), flags


def vmap(
    f: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: str | None = None,
    axis_size: int | None = None,
) -> Callable[..., Any]:
    """The function that does for many examples what `f` does for one.

    Args:
        f: A function of pytrees of arrays.
        in_axes: Which axis of each argument counts the examples; None where all share it. A tree
            that may stop early: `(0, None)`, `({"w": 0, "b": None}, 0)`.
        out_axes: Where that axis is to be in the results.
        axis_name: What collectives such as `psum` call it.
        axis_size: How many examples there are, where no argument says so.

    Raises:
        ValueError: The arguments do not agree on how many examples there are; or `in_axes` does
            not fit them.
    """

    @wraps(f)
    def batched(*args: Any, **kwargs: Any) -> Any:
        leaves, in_tree, dims, size = counted("vmap", f, args, kwargs, in_axes, axis_size)
        flat_f, out_trees = flat(f, in_tree)
        with sources.named_scope("vmap()"):
            results, out = batch_flat(flat_f, size, leaves, dims, axis_name)
        wanted = prefix_leaves(out_axes, out_trees[0], "vmap out_axes")
        return out_trees[0].unflatten(map(_delivered, [size] * len(out), results, out, wanted))

    return batched


def counted(
    what: str,
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    in_axes: Any,
    size: int | None = None,
) -> tuple[list[Any], TreeDef, list[Dim], int]:
    """The leaves of arguments, their tree, the axis of each that counts examples, and how many.

    Args:
        what: Who maps `f`, for errors.
        f: The function.
        args: Its arguments.
        kwargs: Its keyword arguments, all of which count along their first axis.
        in_axes: The axes, a tree that may stop early.
        size: How many examples there are, where it is said.
    """
    leaves, in_tree = tree_flatten((tuple(args), kwargs))
    avals = types_of(f, in_tree, leaves)
    axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    dims = prefix_leaves(axes, in_tree.children[0], f"{what} in_axes")
    dims += [0] * (len(leaves) - len(dims))
    sizes = {} if size is None else {"axis_size": size}
    for n, (_, name) in enumerate(arguments(f, in_tree)):
        aval, dim = avals[n], dims[n]
        if dim is None:
            continue
        if not isinstance(dim, int) or not -aval.ndim <= dim < aval.ndim:
            raise (ValueError if isinstance(dim, int) else TypeError)(
                f"{what}: in_axes says axis {dim!r} of argument {name}, which is "
                f"{aval.str_short()}: "
                f"{f'give an axis from 0 to {aval.ndim - 1}, or ' if aval.ndim else 'give '}None "
                f"to share it."
            )
        dims[n] = dim % aval.ndim
        sizes[name] = aval.shape[dim]
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} has {n}" for name, n in sizes.items())
        raise ValueError(f"{what}: the arguments do not agree on the number of examples: {listed}.")
    if not sizes:
        raise ValueError(f"{what}: no argument counts the examples: give in_axes or axis_size.")
    return leaves, in_tree, dims, next(iter(sizes.values()))


def _delivered(size: int, value: Any, dim: Dim, wanted: Any) -> Any:
    if wanted is None:
        if dim is not None:
            raise ValueError(
                "vmap: out_axes is None for a result that differs from example to example."
            )
        return value
    front = to_front(size, value, dim)
    return moveaxis(front, 0, axis_of(wanted, aval_of(front).ndim))
