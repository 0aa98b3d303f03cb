"""shard_map and pmap: one function, run by every device on its part of the arrays.

The function is written for one device. It sees its part of each argument, does what it does, and
speaks to the others by collectives where it must. `shard_map` says, with a partition spec for each
argument and result, how the whole arrays are cut into these parts; it is a primitive whose
parameter is the function's jaxpr at the types of the parts, so it can be differentiated, batched
and jitted. XLA compiles one program, which all devices run. `pmap` is the older form: the first
axis of each argument counts the devices.

A result that no spec cuts must be the same everywhere: that is not checked, one of them is taken.
After "SPMD multi-device parallelism with shard_map" (docs.jax.dev); it is JAX's with
`check_vma=False`.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import wraps
from math import prod
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from jaxlens.core import sources
from jaxlens.core.avals import ShapedArray, tangent_aval
from jaxlens.core.batching import axis, batch_jaxpr, to_front
from jaxlens.core.device import devices as all_devices
from jaxlens.core.forward import jvp_jaxpr
from jaxlens.core.jaxprs import ClosedJaxpr, hoisted, kept, merge, split
from jaxlens.core.parallel.collectives import psum_p
from jaxlens.core.parallel.meshes import Mesh, P, check, local, shard_map_p, sharding_text, whole
from jaxlens.core.primitives.elementwise import div_p
from jaxlens.core.primitives.shapes import expand_dims, squeeze
from jaxlens.core.programs import jit
from jaxlens.core.reverse import Partial, partial_jaxpr, transpose_jaxpr
from jaxlens.core.staging import Staging, as_function, aval_of, flat, named_axes, trace
from jaxlens.core.tracers import Linear, Zero, interpreting
from jaxlens.core.trees import prefix_leaves, tree_flatten, tree_map, tree_structure

Specs = tuple[P, ...]


def shard_map(
    f: Callable[..., Any], *, mesh: Mesh, in_specs: Any, out_specs: Any
) -> Callable[..., Any]:
    """The function of whole arrays whose parts `f` is applied to, on all devices of a mesh.

    Args:
        f: A function of pytrees of arrays: one device's parts. Collectives over the mesh's axis
            names are known in it.
        mesh: The devices.
        in_specs: How each argument is cut: a tree that may stop early, as vmap's `in_axes`.
        out_specs: How the results were cut.

    Raises:
        ValueError: A spec does not fit its array, or the mesh.
    """

    @wraps(f)
    def mapped(*args: Any) -> Any:
        leaves, in_tree = tree_flatten((args, {}))
        if set(mesh.axis_names) & set(named_axes()):
            raise ValueError(
                f"{sources.line()}: shard_map over {mesh} inside of another map with an axis of "
                f"one of these names: give the axes other names."
            )
        given = tuple(in_specs) if isinstance(in_specs, list) else in_specs
        ins = prefix_leaves(given, tree_structure(args), "shard_map in_specs")
        ins = [P() if spec is None else spec for spec in ins]
        names = ["args" + "".join(path[1:]) for path in in_tree.paths()]
        for leaf, spec, name in zip(leaves, ins, names, strict=True):
            check(aval_of(leaf), spec, mesh, f"shard_map: in_specs of {name}")
        flat_f, out_trees = flat(f, in_tree)
        avals = [local(aval_of(x), spec, mesh) for x, spec in zip(leaves, ins, strict=True)]
        closed, consts = hoisted(_traced(flat_f, avals, mesh))
        outs = prefix_leaves(out_specs, out_trees[0], "shard_map out_specs")
        outs = [P() if spec is None else spec for spec in outs]
        for aval, spec in zip(closed.out_avals, outs, strict=True):
            check(aval, spec, mesh, "shard_map: out_specs", cut=False)
        params = {
            "jaxpr": closed, "mesh": mesh, "in_specs": (*[P()] * len(consts), *ins),
            "out_specs": tuple(outs),
        }  # fmt: skip
        return out_trees[0].unflatten(shard_map_p.bind(*consts, *leaves, **params))

    return mapped


def _traced(f: Callable[..., Any], avals: Sequence[ShapedArray], mesh: Mesh) -> ClosedJaxpr:
    """A function written down while the axes of a mesh have their names."""
    with ExitStack() as stack:
        for name, size in mesh.shape.items():
            stack.enter_context(axis(name, size))
        return trace(f, avals)


@shard_map_p.rule("abstract")
def _(
    *avals: ShapedArray, jaxpr: ClosedJaxpr, mesh: Mesh, in_specs: Specs, out_specs: Specs
) -> list[ShapedArray]:
    pairs = zip(jaxpr.out_avals, out_specs, strict=True)
    return [whole(aval, spec, mesh) for aval, spec in pairs]


@shard_map_p.rule("lower")
def _(
    ctx: Any, *operands: Any, jaxpr: ClosedJaxpr, mesh: Mesh, in_specs: Specs, out_specs: Specs
) -> list[Any]:
    if ctx.program.mesh is None:
        raise NotImplementedError(
            "shard_map can be compiled only in a program of core's own, not exported."
        )

    def layouts(avals: Sequence[ShapedArray], specs: Specs) -> ir.Attribute:
        pairs = zip(avals, specs, strict=True)
        texts = (sharding_text(mesh, spec, aval.ndim) for aval, spec in pairs)
        return ir.Attribute.parse(f"#sdy.sharding_per_value<[{', '.join(texts)}]>")

    manual = sdy.ManualAxesAttr.get(list(map(ir.StringAttr.get, mesh.axis_names)))
    op = sdy.ManualComputationOp(
        list(map(ctx.type, ctx.avals_out)), operands, layouts(ctx.avals_in, in_specs),
        layouts(ctx.avals_out, out_specs), manual,
    )  # fmt: skip
    block = op.body.blocks.append(*map(ctx.type, jaxpr.in_avals))
    with ir.InsertionPoint(block):
        sdy.ReturnOp(ctx.inline(jaxpr, *block.arguments, scope="shard_map"))
    return list(op.results)


# ---- under other transformations: the same to the jaxpr, and new specs --------------------------


@kept
def _jvp(closed: ClosedJaxpr, nonzero: tuple[bool, ...]) -> Any:
    both, flags = jvp_jaxpr(closed, nonzero)
    return *hoisted(both), flags


@shard_map_p.rule("jvp")
def _(
    primals: Any, tangents: Any, *, jaxpr: ClosedJaxpr, in_specs: Specs, out_specs: Specs,
    **params: Any,
) -> Any:  # fmt: skip
    nonzero = tuple(type(tangent) is not Zero for tangent in tangents)
    both, consts, flags = _jvp(jaxpr, nonzero)
    results = shard_map_p.bind(
        *consts, *primals, *split(nonzero, tangents)[1], jaxpr=both,
        in_specs=(*[P()] * len(consts), *in_specs, *split(nonzero, in_specs)[1]),
        out_specs=(*out_specs, *split(flags, out_specs)[1]), **params,
    )  # fmt: skip
    values, moving = results[: len(flags)], results[len(flags) :]
    zeros = [Zero(tangent_aval(aval_of(x))) for x in split(flags, values)[0]]
    return values, merge(flags, zeros, moving)


@kept
def _batch(closed: ClosedJaxpr, size: int, batched: tuple[bool, ...]) -> Any:
    every, flags = batch_jaxpr(closed, size, batched)
    return *hoisted(every), flags


@shard_map_p.rule("batch")
def _(
    size: int, args: Any, dims: Any, *, jaxpr: ClosedJaxpr, in_specs: Specs, out_specs: Specs,
    **params: Any,
) -> Any:  # fmt: skip
    batched = tuple(dim is not None for dim in dims)
    every, consts, flags = _batch(jaxpr, size, batched)
    fronts = [
        x if dim is None else to_front(size, x, dim) for x, dim in zip(args, dims, strict=True)
    ]
    ins, outs = _moved(batched, in_specs), _moved(flags, out_specs)
    results = shard_map_p.bind(
        *consts, *fronts, jaxpr=every, in_specs=(*[P()] * len(consts), *ins), out_specs=outs,
        **params,
    )  # fmt: skip
    return results, [0 if has else None for has in flags]


def _moved(flags: Sequence[bool], specs: Specs) -> Specs:
    """Specs of arrays with a new first axis."""
    return tuple(P(None, *s) if has else s for has, s in zip(flags, specs, strict=True))


@kept
def _halves(closed: ClosedJaxpr, unknown: tuple[bool, ...]) -> Any:
    """As for `jit`, but residuals have an axis: each device has its own, side by side."""
    now, later, flags = partial_jaxpr(closed, unknown)
    now, consts = hoisted(now)
    count = flags.count(False)
    scalars = [aval.shape == () for aval in now.out_avals[count:]]

    def first(*args: Any) -> list[Any]:
        results = as_function(now)(*args)
        pairs = zip(results[count:], scalars, strict=True)
        return results[:count] + [expand_dims(x, [0]) if flat else x for x, flat in pairs]

    def second(*args: Any) -> list[Any]:
        pairs = zip(args, scalars, strict=False)
        own = [squeeze(x, [0]) if flat else x for x, flat in pairs]
        return as_function(later)(*own, *args[len(own) :])

    first_jaxpr = trace(first, now.in_avals)
    own = first_jaxpr.out_avals[count:]
    return first_jaxpr, consts, trace(second, [*own, *later.in_avals[len(own) :]]), flags


@shard_map_p.rule("partial")
def _(interpreter: Partial, args: Any, params: dict[str, Any]) -> list[Any]:
    unknown = tuple(map(interpreter.unknown, args))
    now, consts, later, flags = _halves(params["jaxpr"], unknown)
    known, waiting = split(unknown, args)
    ins, outs = split(unknown, params["in_specs"]), split(flags, params["out_specs"])
    residuals = [P(params["mesh"].axis_names)] * (len(now.out_avals) - len(outs[0]))
    first = {"in_specs": (*[P()] * len(consts), *ins[0]), "out_specs": (*outs[0], *residuals)}
    with interpreting(interpreter.parent):
        results = shard_map_p.bind(*consts, *known, **params | first | {"jaxpr": now})
    rest = []
    if any(flags):
        second = {"in_specs": (*residuals, *ins[1]), "out_specs": tuple(outs[1])}
        waiting = [*results[len(outs[0]) :], *waiting]
        rest = Staging.process(
            interpreter, shard_map_p, waiting, params | second | {"jaxpr": later}
        )
    return merge(flags, results[: len(outs[0])], rest)


@kept
def _transpose(
    closed: ClosedJaxpr, linear: tuple[bool, ...], nonzero: tuple[bool, ...], copied: Any
) -> Any:
    """Where devices had copies of an argument, its cotangent is the sum over them."""
    back, flags = transpose_jaxpr(closed, linear, nonzero)
    back, consts = hoisted(back)
    axes = split(flags, copied)[1]

    def summed(*args: Any) -> list[Any]:
        pairs = zip(as_function(back)(*args), axes, strict=True)
        return [psum_p.bind(ct, axes=names) if names else ct for ct, names in pairs]

    return trace(summed, back.in_avals), consts, flags


@shard_map_p.rule("transpose")
def _(
    cts: Any, *args: Any, jaxpr: ClosedJaxpr, mesh: Mesh, in_specs: Specs, out_specs: Specs
) -> list[Any]:
    linear = tuple(type(x) is Linear for x in args)
    nonzero = tuple(type(ct) is not Zero for ct in cts)
    ins = split(linear, in_specs)
    copied = tuple(_uncut(spec, mesh) for spec in ins[1])
    back, consts, flags = _transpose(jaxpr, linear, nonzero, copied)
    pairs = [(ct, spec) for ct, spec in zip(cts, out_specs, strict=True) if type(ct) is not Zero]
    shares = [_share(ct, spec, mesh) for ct, spec in pairs]
    found = shard_map_p.bind(
        *consts, *split(linear, args)[0], *shares, jaxpr=back, mesh=mesh,
        in_specs=(*[P()] * len(consts), *ins[0], *(spec for _, spec in pairs)),
        out_specs=tuple(split(flags, ins[1])[1]),
    )  # fmt: skip
    none = [None] * len(args)
    return merge(linear, none[: len(ins[0])], merge(flags, none[: flags.count(False)], found))


def _uncut(spec: P, mesh: Mesh) -> tuple[str, ...]:
    """The axes of a mesh along which devices have copies."""
    return tuple(name for name in mesh.axis_names if name not in spec.used())


def _share(ct: Any, spec: P, mesh: Mesh) -> Any:
    """The cotangent of a result that several devices have: they share it."""
    copies = prod(mesh.shape[name] for name in _uncut(spec, mesh))
    return ct if copies == 1 else div_p.bind(ct, aval_of(ct).dtype.type(copies))


# ---- pmap ---------------------------------------------------------------------------------------


def pmap(
    f: Callable[..., Any],
    axis_name: str = "devices",
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    devices: Sequence[Any] | None = None,
) -> Any:
    """The function that does on many devices, one example each, what `f` does on one; jitted.

    Args:
        f: A function of pytrees of arrays.
        axis_name: What collectives call the axis of devices.
        in_axes: Which axis of each argument counts the devices; None where all get the same.
        out_axes: Where that axis is to be in the results, from 0; None for one of equal ones.
        devices: Which; the first ones of the default backend.

    Raises:
        ValueError: There are fewer devices than examples, or the arguments do not agree.
    """

    def mapped(*args: Any) -> Any:
        leaves, tree = tree_flatten(args)
        given = tuple(in_axes) if isinstance(in_axes, list) else in_axes
        dims = prefix_leaves(given, tree, "pmap in_axes")
        sizes = {aval_of(x).shape[d] for x, d in zip(leaves, dims, strict=True) if d is not None}
        if len(sizes) != 1:
            raise ValueError(
                f"pmap: one argument or more must count the devices, and they must agree: the "
                f"axes that in_axes={in_axes} says have lengths {sorted(sizes)}."
            )
        (size,) = sizes
        found = list(devices or all_devices())
        if size > len(found):
            raise ValueError(f"pmap: {size} examples need {size} devices, there are {len(found)}.")
        mesh = Mesh(np.array(found[:size], dtype=object), axis_name)

        def one(*parts: Any) -> Any:
            pairs = zip(parts, dims, strict=True)
            own = [x if d is None else squeeze(x, [d % aval_of(x).ndim]) for x, d in pairs]
            results, out_tree = tree_flatten(f(*tree.unflatten(own)))
            pairs = zip(results, prefix_leaves(out_axes, out_tree, "pmap out_axes"), strict=True)
            return out_tree.unflatten([x if d is None else expand_dims(x, [d]) for x, d in pairs])

        ins = tuple(spec_of(d and d % aval_of(x).ndim) for x, d in zip(leaves, dims, strict=True))
        outs = tree_map(spec_of, out_axes, is_leaf=lambda d: d is None)
        return shard_map(one, mesh=mesh, in_specs=ins, out_specs=outs)(*leaves)

    def spec_of(dim: int | None) -> P:
        return P() if dim is None else P(*[None] * dim, axis_name)

    mapped.__name__ = getattr(f, "__name__", "pmap")
    return jit(mapped)
