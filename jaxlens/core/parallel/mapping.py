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
from functools import wraps
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from jaxlens.core.aot.device import Mesh, P
from jaxlens.core.aot.lower import MeshLayout, sharding_text
from jaxlens.core.kernel.basics import Linear, reshape
from jaxlens.core.kernel.interpreter import Primitive, aval_of, interpreting
from jaxlens.core.kernel.jaxpr import ClosedJaxpr, as_function, hoisted
from jaxlens.core.kernel.sources import here
from jaxlens.core.kernel.trace import trace
from jaxlens.core.kernel.types import ShapedArray
from jaxlens.core.kernel.vjp import Partial
from jaxlens.core.parallel import meshes
from jaxlens.core.parallel.collectives import mesh_of, psum_p
from jaxlens.core.primitives.elementwise import div_p
from jaxlens.core.transforms import jaxprs
from jaxlens.core.transforms.batching import named_axes, naming
from jaxlens.core.transforms.calls import record_rest, transformed
from jaxlens.core.transforms.flags import Flags, cut, in_front, merge, nonzero, split, with_tangents
from jaxlens.core.transforms.jaxprs import memoized
from jaxlens.core.transforms.trees import flat, paths, prefix_leaves, tree_flatten, tree_structure

shard_map_p = Primitive("shard_map", multiple_results=True)


def shard_map(
    f: Callable[..., Any], *, mesh: Mesh, in_specs: Any, out_specs: Any
) -> Callable[..., Any]:
    """Returns the function of global arrays that applies `f` to their shards on each device.

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
                f"{here()}: shard_map over {mesh} inside of another map with an axis of "
                f"one of these names: give the axes other names."
            )
        ins = prefix_leaves(in_specs, tree_structure(args), "shard_map in_specs")
        names = ["shard_map: in_specs of args" + "".join(path[1:]) for path in paths(in_tree)]
        triples = zip(leaves, ins, names, strict=True)
        avals = [meshes.part(aval_of(leaf), spec, mesh, name) for leaf, spec, name in triples]
        flat_f, out_trees = flat(f, in_tree)
        with naming(mesh.shape):
            closed, consts = hoisted(trace(flat_f, avals))
        outs = prefix_leaves(out_specs, out_trees[0], "shard_map out_specs")
        return out_trees[0].unflatten(_bind(closed, consts, leaves, MeshLayout(mesh, ins, outs)))

    return mapped


def _bind(jaxpr: ClosedJaxpr, consts: Sequence[Any], args: Sequence[Any], lies: MeshLayout) -> Any:
    """Binds `shard_map_p` for a jaxpr of shards, whose constants are replicated."""
    copies = [P()] * len(consts)
    return shard_map_p.bind(
        *consts,
        *args,
        jaxpr=jaxpr,
        mesh=lies.mesh,
        in_specs=(*copies, *lies.in_specs),
        out_specs=tuple(lies.out_specs),
    )


@shard_map_p.rule("abstract")
def _(*avals: ShapedArray, jaxpr: ClosedJaxpr, **params: Any) -> list[ShapedArray]:
    lies = MeshLayout(**params)
    pairs = zip(jaxpr.out_avals, lies.out_specs, strict=True)
    return [meshes.whole(aval, spec, lies.mesh, "shard_map: out_specs") for aval, spec in pairs]


@shard_map_p.rule("lower")
def _(ctx: Any, *operands: Any, jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
    lies, mesh = MeshLayout(**params), mesh_of(ctx)
    if mesh.size == 1:  # the part is the whole, and XLA partitions nothing
        whole: list[Any] = ctx.inline(jaxpr, *operands, scope="shard_map")
        return whole

    def layouts(avals: Sequence[ShapedArray], specs: Sequence[Any]) -> ir.Attribute:
        pairs = zip(avals, specs, strict=True)
        texts = (sharding_text(mesh, spec, aval.ndim) for aval, spec in pairs)
        return ir.Attribute.parse(f"#sdy.sharding_per_value<[{', '.join(texts)}]>")

    manual = sdy.ManualAxesAttr.get(list(map(ir.StringAttr.get, mesh.axis_names)))
    op = sdy.ManualComputationOp(
        list(map(ctx.type, ctx.avals_out)),
        operands,
        layouts(ctx.avals_in, lies.in_specs),
        layouts(ctx.avals_out, lies.out_specs),
        manual,
    )
    block = op.body.blocks.append(*map(ctx.type, jaxpr.in_avals))
    with ir.InsertionPoint(block):
        sdy.ReturnOp(ctx.inline(jaxpr, *block.arguments, scope="shard_map"))
    return list(op.results)


# ---- under other transformations: the same to the jaxpr, and new specs --------------------------


@shard_map_p.rule("jvp")
def _(primals: Any, tangents: Any, *, jaxpr: ClosedJaxpr, **params: Any) -> Any:
    (mesh, ins, outs), has = MeshLayout(**params), nonzero(tangents)
    both, new, flags = transformed(jaxpr, jaxprs.jvp_jaxpr, has)
    lies = MeshLayout(mesh, (*ins, *split(has, ins)[1]), (*outs, *split(flags, outs)[1]))
    results = _bind(both, new, [*primals, *split(has, tangents)[1]], lies)
    return with_tangents(results, flags)


@shard_map_p.rule("batch")
def _(size: int, args: Any, dims: Any, *, jaxpr: ClosedJaxpr, **params: Any) -> Any:
    (mesh, ins, outs), batched = MeshLayout(**params), tuple(dim is not None for dim in dims)
    whole_jaxpr, new, flags = transformed(jaxpr, jaxprs.batch_jaxpr, size, batched)
    lies = MeshLayout(mesh, _moved(batched, ins), _moved(flags, outs))
    results = _bind(whole_jaxpr, new, in_front(size, args, dims), lies)
    return results, [0 if has else None for has in flags]


def _moved(flags: Sequence[bool], specs: Sequence[Any]) -> list[Any]:
    """Returns the specs of arrays that have a new first axis where flagged."""
    return [P(None, *spec) if has else spec for has, spec in zip(flags, specs, strict=True)]


@memoized
def _halves(closed: ClosedJaxpr, unknown: Flags) -> Any:
    """Splits a jaxpr; residuals get an axis that concatenates those of the devices."""
    now, later, flags = jaxprs.partial_jaxpr(closed, unknown)
    now, consts = hoisted(now)
    count = flags.count(False)

    def first(*args: Any) -> list[Any]:
        done, residuals = cut(as_function(now)(*args), count)
        return [*done, *(reshape(x, aval_of(x).shape or (1,)) for x in residuals)]

    def second(*args: Any) -> list[Any]:
        own = (reshape(x, aval.shape) for x, aval in zip(args, later.in_avals, strict=True))
        return as_function(later)(*own)

    now_jaxpr = trace(first, now.in_avals)
    residuals = now_jaxpr.out_avals[count:]
    return now_jaxpr, consts, trace(second, [*residuals, *later.in_avals[len(residuals) :]]), flags


@shard_map_p.rule("partial")
def _(interpreter: Partial, args: Any, params: dict[str, Any]) -> list[Any]:
    unknown, mesh = tuple(map(interpreter.unknown, args)), params["mesh"]
    now, consts, later, flags = _halves(params["jaxpr"], unknown)
    known_args, rest = split(unknown, args)
    ins, outs = split(unknown, params["in_specs"]), split(flags, params["out_specs"])
    own = [P(mesh.axis_names)] * (len(now.out_avals) - len(outs[0]))
    with interpreting(interpreter.parent):
        results = _bind(now, consts, known_args, MeshLayout(mesh, ins[0], outs[0] + own))
    done, residuals = cut(results, len(outs[0]))
    lies = {"mesh": mesh, "in_specs": (*own, *ins[1]), "out_specs": tuple(outs[1])}
    rest = [*residuals, *rest]
    return record_rest(interpreter, shard_map_p, flags, done, rest, lies | {"jaxpr": later})


@memoized
def _transposed_of(closed: ClosedJaxpr, linear: Flags, has: Flags, copied: Any) -> Any:
    """Transposes a jaxpr; the cotangent of a replicated argument is summed over the replicas."""
    back, flags = jaxprs.transpose_jaxpr(closed, linear, has)
    back, consts = hoisted(back)

    def summed(*args: Any) -> list[Any]:
        pairs = zip(as_function(back)(*args), split(flags, copied)[1], strict=True)
        return [psum_p.bind(ct, axes=names) if names else ct for ct, names in pairs]

    return trace(summed, back.in_avals), consts, flags


@shard_map_p.rule("transpose")
def _(cts: Any, *args: Any, jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
    mesh, ins, outs = MeshLayout(**params)
    linear, has = tuple(type(x) is Linear for x in args), nonzero(cts)
    (fixed, moving), specs = split(linear, ins), split(has, outs)[1]
    copied = tuple(_uncut(spec, mesh) for spec in moving)
    back, new, flags = _transposed_of(jaxpr, linear, has, copied)
    shares = [_share(ct, spec, mesh) for ct, spec in zip(split(has, cts)[1], specs, strict=True)]
    lies = MeshLayout(mesh, fixed + specs, split(flags, moving)[1])
    cts_in = _bind(back, new, split(linear, args)[0] + shares, lies)
    return merge(linear, [None] * len(fixed), merge(flags, [None] * flags.count(False), cts_in))


def _uncut(spec: Any, mesh: Mesh) -> tuple[str, ...]:
    """Returns the axes of a mesh along which a spec replicates."""
    return tuple(name for name in mesh.axis_names if name not in meshes.used(spec))


def _share(ct: Any, spec: Any, mesh: Mesh) -> Any:
    """Divides the cotangent of a replicated result by the number of replicas."""
    copies = meshes.count(mesh, _uncut(spec, mesh))  # what they make of it is summed in the end
    return ct if copies == 1 else div_p.bind(ct, aval_of(ct).dtype.type(copies))
