"""Programs on eight virtual devices, whose collectives can be counted by hand; prints what is seen.

Run by `test_sharding.py` in a process of its own, for the number of devices is a process's.
"""

import json
import sys

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxlens
from jaxlens import core
from jaxlens.core import numpy as cnp
from jaxlens.ir.hlo.shardings import partitioned, spec_text, tiling
from jaxlens.questions.sharding.measure import steps
from tests.support import programs

jax.config.update("jax_num_cpu_devices", 8)
MESH = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def put(shape, *spec):
    return jax.device_put(jnp.ones(shape), NamedSharding(MESH, P(*spec)))


def layers(w1, w2, x):
    h = jnp.tanh(x @ w1)
    return h @ w2  # sums over what "model" cuts: an all-reduce


def column_then_row():
    """Megatron's two layers: one all-reduce over "model" of f32[64,32] on each device."""
    args = put((64, 128), None, "model"), put((128, 32), "model", None), put((256, 64), "data")
    return layers, args


def exchanges():
    """One of each collective, asked for by name."""

    def body(x):
        return (
            jax.lax.psum(x, "data"),
            jax.lax.all_gather(x, "model"),
            jax.lax.ppermute(x, "data", [(0, 1), (1, 2), (2, 3), (3, 0)]),
            jax.lax.psum_scatter(x, "model", tiled=True),
        )

    outs = (P(None, "model"), P(None, "data"), P("data", "model"), P(("data", "model"), None))
    f = jax.shard_map(body, mesh=MESH, in_specs=P("data", "model"), out_specs=outs, check_vma=False)
    return f, (jnp.ones((64, 32)),)


def looped():
    """A psum in a scan of ten steps."""

    def body(x):
        return jax.lax.scan(lambda c, _: (jax.lax.psum(c, "data") / 4, None), x, None, 10)[0]

    f = jax.shard_map(body, mesh=MESH, in_specs=P("data"), out_specs=P("data"), check_vma=False)
    return f, (jnp.ones((64, 32)),)


def left_to_xla():
    """Data parallel: weights that lie nowhere yet, one all-reduce of their gradient f32[64,128]."""

    def step(w, x):
        return w - 0.1 * jax.grad(lambda w: ((x @ w) ** 2).mean())(w)

    return step, (jnp.ones((64, 128)), put((256, 64), "data"))


def of_a_tree():
    """As `left_to_xla`, of two layers whose weights are cut as in FSDP."""

    def step(p, x):
        grads = jax.grad(lambda p: (layers(p["w1"], p["w2"], x) ** 2).mean())(p)
        return jax.tree.map(lambda w, g: w - 0.1 * g, p, grads)

    return step, (
        {"w1": put((64, 128), "data"), "w2": put((128, 64), "data")},
        put((256, 64), "data"),
    )


def of_the_core():
    mesh = core.Mesh(jax.devices()[:4], ("i",))
    ins, outs = core.PartitionSpec("i"), core.PartitionSpec()
    f = core.shard_map(
        lambda x: core.lax.psum(cnp.sin(x), "i"), mesh=mesh, in_specs=ins, out_specs=outs
    )
    return f, (jnp.ones((8, 4)),)


def of_a_library():
    """An Equinox model with an Optax update, data parallel: the gradients of six weights travel."""
    update, (params, state, x, y) = programs.equinox_optax()
    return update, (params, state, put(x.shape, "data"), put(y.shape, "data"))


def resharded():
    """Two shardings of one value (jax issue 21562): at last each device has gathered all of it."""
    turned = NamedSharding(
        jax.make_mesh((2, 4), ("u", "v"), axis_types=(AxisType.Auto,) * 2), P("v", "u")
    )

    def f(x):
        y = jax.lax.with_sharding_constraint(x * 2, turned)
        return jax.lax.with_sharding_constraint(y, NamedSharding(MESH, P(None, None)))

    return f, (put((64, 64), "data", "model"),)


def constrained():
    """A carry cut by "model" after a constraint; the result is asked for cut the other way."""
    across = NamedSharding(MESH, P(None, "model"))

    def f(w, x):
        h = jax.lax.with_sharding_constraint(jnp.tanh(x @ w), across)
        c, _ = jax.lax.scan(lambda c, _: (jnp.sin(c) @ w.T @ w + h, None), h, None, 4)
        return c * 2

    args = put((64, 128), "data"), put((32, 64), "data")
    return jax.jit(f, out_shardings=NamedSharding(MESH, P("model"))), args


def alone():
    return layers, (jnp.ones((4, 4)), jnp.ones((4, 4)), jnp.ones((4, 4)))


def seen(name, kept):
    """What is seen of a program and of its capture saved in a file."""
    f, args = globals()[name]()
    cap = jaxlens.capture(f, *args)
    sharding = jaxlens.sharding(cap)
    text = str(sharding)
    cap.save(kept)
    saved = jaxlens.sharding(jaxlens.load(kept))
    return {
        "text": text,
        "saved": str(saved),
        "html": len(sharding.html()),
        "devices": sharding.devices,
        "counted": jaxlens.cost(cap).counts.devices,
        "axes": sharding.axes,
        "sent": sharding.sent,
        "inputs": [(x.spec, x.tiling and x.tiling.tiles) for x in sharding.inputs],
        "outputs": [(x.spec, x.tiling and x.tiling.tiles) for x in sharding.outputs],
        "values": [(one.name, one.spec) for one in reversed(sharding.values)],
        "truth": [list(s.shard_shape(a.shape)) for s, a in _truth(f, args)],
        "pieces": [one.piece and one.piece.shape for one in sharding.outputs],
        "collectives": [
            {
                "opcode": c.opcode,
                "bytes": c.bytes,
                "groups": c.groups,
                "over": c.over,
                "trips": c.trips,
                "lines": c.lines,
                "sent": c.sent,
            }
            for c in sharding.collectives
        ],
    }


def asked(name):
    """Why the collectives of a program are there, and what it does with other shardings."""
    f, args = globals()[name]()
    cap = jaxlens.capture(f, *args)
    sharding = jaxlens.sharding(cap, reshard=True)
    specs = steps(cap.stablehlo.raw).specs
    return {
        "text": str(sharding),
        "reasons": {
            reason.collective: [
                reason.opcode,
                reason.line,
                [[cut.value, cut.axis, cut.dimension, cut.asks] for cut in reason.cuts],
            ]
            for reason in sharding.reasons
        },
        "collectives": [[c.id, c.opcode, c.over, c.lines] for c in sharding.collectives],
        "others": {other.change: other.sent for other in sharding.others},
        "specs": [[specs.get(op, ""), spec] for op, spec in _partitioner(cap, sharding.axes)],
    }


def _partitioner(cap, axes):
    """The specs that XLA's partitioner was given, by op."""
    (given,) = (s for s in cap.passes if s.name.endswith("shardy-xla") and s.changed)
    for node in given.stage.module.nodes():
        tiles = tiling(node.attrs.get("sharding", ""), len(node.type.shape), jax.device_count())
        spec = spec_text(partitioned(tiles, axes))
        yield from ((path[-1], spec) for path in node.stamps if spec)


def unsharded(name, number):
    """What travels where an argument lies whole on each device: as JAX itself lowers that."""
    f, args = globals()[name]()
    here = list(args)
    here[number] = put(args[number].shape)
    return jaxlens.sharding(f, *here).sent


def _truth(f, args):
    """How JAX itself says that the results lie."""
    try:
        results = jax.tree.leaves(jax.jit(f)(*args))
    except TypeError:  # the core's
        return []
    return [(one.sharding, one) for one in results]


if __name__ == "__main__":
    folder, *names = sys.argv[1:]
    found = {name: seen(name, f"{folder}/{name}.jaxlens") for name in names if name[0] != "?"}
    found |= {name: asked(name[1:]) for name in names if name[0] == "?"}
    if "?left_to_xla" in names:
        found["left_to_xla, x whole"] = unsharded("left_to_xla", 1)
    print(json.dumps(found))
