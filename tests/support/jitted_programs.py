"""Calls of jitted functions as users of JAX's libraries write them: `(f, args, kwargs)` each.

What they need beyond JAX is in the dependency group `models`, and imported late. Each makes its
function and arguments anew, as some calls donate or update them.
"""

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def _call(f, *args, **kwargs):
    return f, args, kwargs


def nnx_parts():
    """A Flax model, its optimizer, and a step that updates both in place and is not jitted."""
    import optax
    from flax import nnx

    class Model(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Linear(8, 16, rngs=rngs)
            self.norm = nnx.BatchNorm(16, rngs=rngs)
            self.drop = nnx.Dropout(0.5, rngs=rngs)
            self.last = nnx.Linear(16, 4, rngs=rngs)

        def __call__(self, x):
            return self.last(self.drop(nnx.relu(self.norm(self.first(x)))))

        @nnx.jit
        def fast(self, x):
            return self(x)

    def train_step(model, optimizer, x, y):
        loss, grads = nnx.value_and_grad(lambda m: ((m(x) - y) ** 2).mean())(model)
        optimizer.update(model, grads)
        return loss

    model = Model(nnx.Rngs(0))
    return model, nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param), train_step


def nnx_optimizer():
    """Flax's usual step."""
    from flax import nnx

    model, optimizer, train_step = nnx_parts()
    return _call(nnx.jit(train_step), model, optimizer, jnp.ones((3, 8)), jnp.zeros((3, 4)))


def nnx_batch_norm():
    """A forward pass that updates running averages and random counts."""
    from flax import nnx

    return _call(nnx.jit(lambda model, x: model(x)), nnx_parts()[0], jnp.ones((3, 8)))


def nnx_scan():
    """Layers made by `nnx.vmap` and applied by `nnx.scan`."""
    from flax import nnx

    @nnx.split_rngs(splits=4)
    @nnx.vmap(in_axes=(0,), out_axes=0)
    def layers(rngs):
        return nnx.Linear(8, 8, rngs=rngs)

    @nnx.jit
    def forward(model, x):
        @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
        def apply(x, layer):
            return nnx.tanh(layer(x))

        return apply(x, model)

    return _call(forward, layers(nnx.Rngs(0)), jnp.ones((3, 8)))


def nnx_donating():
    from flax import nnx

    @functools.partial(nnx.jit, donate_argnums=0)
    def update(model, x):
        model.kernel[...] = model.kernel[...] * 0.9 + x.mean()

    return _call(update, nnx.Linear(8, 16, rngs=nnx.Rngs(0)), jnp.ones((3, 8)))


def equinox_step():
    """`eqx.filter_jit` of a step with an Optax chain."""
    import equinox as eqx
    import optax

    model = eqx.nn.MLP(4, 1, 16, 2, key=jax.random.key(0))
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))

    @eqx.filter_jit
    def step(model, state, x, y):
        loss = lambda model: ((jax.vmap(model)(x) - y) ** 2).mean()  # noqa: E731
        value, grads = eqx.filter_value_and_grad(loss)(model)
        updates, state = optimizer.update(grads, state, eqx.filter(model, eqx.is_array))
        return eqx.apply_updates(model, updates), state, value

    state = optimizer.init(eqx.filter(model, eqx.is_array))
    return _call(step, model, state, jnp.ones((8, 4)), jnp.zeros((8, 1)))


def equinox_state():
    """A batch norm whose running averages are a state that goes in and out."""
    import equinox as eqx

    class Model(eqx.Module):
        linear: eqx.nn.Linear
        norm: eqx.nn.BatchNorm

        def __init__(self, key):
            self.linear = eqx.nn.Linear(4, 8, key=key)
            self.norm = eqx.nn.BatchNorm(8, "batch", mode="ema")

        def __call__(self, x, state):
            return self.norm(self.linear(x), state)

    model, state = eqx.nn.make_with_state(Model)(jax.random.key(0))

    @eqx.filter_jit
    def forward(model, state, x):
        return jax.vmap(model, (0, None), (0, None), axis_name="batch")(x, state)

    return _call(forward, model, state, jnp.ones((3, 4)))


def linen_step():
    """A Linen train state with batch norm and dropout."""
    import flax.linen as nn
    import optax
    from flax.training.train_state import TrainState

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, train):
            x = nn.BatchNorm(use_running_average=not train)(nn.Dense(16)(x))
            return nn.Dense(4)(nn.Dropout(0.3, deterministic=not train)(nn.relu(x)))

    net, x = Net(), jnp.ones((3, 8))
    variables = net.init(jax.random.key(0), x, train=False)
    state = TrainState.create(apply_fn=net.apply, params=variables["params"], tx=optax.sgd(0.1))

    @jax.jit
    def step(state, averages, x, key):
        def loss(params):
            given = {"params": params, "batch_stats": averages}
            y, new = state.apply_fn(
                given, x, train=True, mutable=["batch_stats"], rngs={"dropout": key}
            )
            return (y**2).mean(), new["batch_stats"]

        (_, averages), grads = jax.value_and_grad(loss, has_aux=True)(state.params)
        return state.apply_gradients(grads=grads), averages

    return _call(step, state, variables["batch_stats"], x, jax.random.key(1))


def haiku_step():
    """A Haiku network with state, its apply function jitted."""
    import haiku as hk

    def net(x):
        x = hk.BatchNorm(True, True, 0.9)(hk.Linear(8)(x), is_training=True)
        return hk.dropout(hk.next_rng_key(), 0.5, jax.nn.relu(x)).sum()

    f = hk.transform_with_state(net)
    x = jnp.ones((4, 3))
    params, state = f.init(jax.random.key(0), x)
    return _call(jax.jit(f.apply), params, state, jax.random.key(1), x)


def diffrax_gradient():
    """The gradient of a stiff solve with an implicit solver."""
    import diffrax
    import equinox as eqx

    @eqx.filter_jit
    @eqx.filter_grad
    def sensitivity(rate, y0):
        term = diffrax.ODETerm(lambda t, y, k: -k * y**3)
        controller = diffrax.PIDController(rtol=1e-3, atol=1e-5)
        solution = diffrax.diffeqsolve(
            term, diffrax.Kvaerno3(), 0.0, 1.0, 0.1, y0, rate, stepsize_controller=controller
        )
        return solution.ys.sum()

    return _call(sensitivity, jnp.array(2.0), jnp.ones(2))


def numpyro_svi():
    """One update of variational inference."""
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoNormal

    def model(x, y):
        slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
        noise = numpyro.sample("noise", dist.HalfNormal(1.0))
        numpyro.sample("y", dist.Normal(x * slope, noise), obs=y)

    x = jnp.linspace(0.0, 1.0, 16)
    svi = SVI(model, AutoNormal(model), numpyro.optim.Adam(0.01), Trace_ELBO())
    state = svi.init(jax.random.key(0), x, 2 * x)
    return _call(jax.jit(svi.update), state, x, 2 * x)


def blackjax_hmc():
    import blackjax

    sampler = blackjax.hmc(lambda x: -(x**2).sum() / 2, 0.1, jnp.ones(2), 3)
    return _call(jax.jit(sampler.step), jax.random.key(0), sampler.init(jnp.ones(2)))


def mjx_step():
    """A step of a pendulum in MuJoCo's simulator."""
    import mujoco
    from mujoco import mjx

    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body pos="0 0 1"><joint type="hinge" axis="0 1 0"/>'
        '<geom type="capsule" size=".05" fromto="0 0 0 .5 0 0"/></body></worldbody></mujoco>'
    )
    on_device = mjx.put_model(model)
    return _call(jax.jit(mjx.step), on_device, mjx.make_data(on_device))


def callbacks():
    """A pure and an ordered callback, and a print."""
    from jax.experimental import io_callback

    @jax.jit
    def f(x):
        jax.debug.print("{}", x.sum())
        y = jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        io_callback(lambda v: None, None, y, ordered=True)
        return y * 2

    return _call(f, jnp.ones(3))


def pallas_interpreted():
    from jax.experimental import pallas as pl

    def kernel(x, y, out):
        out[...] = jnp.tanh(x[...]) + y[...]

    @jax.jit
    def f(x, y):
        block = pl.BlockSpec((4, 8), lambda i: (i, 0))
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        add = pl.pallas_call(
            kernel, shape, grid=(2,), in_specs=[block] * 2, out_specs=block, interpret=True
        )
        return add(x, y) * 2

    return _call(f, jnp.ones((8, 8)), jnp.ones((8, 8)))


def mapped_over_one():
    return _call(jax.pmap(lambda x: x - jax.lax.pmean(x, "i"), axis_name="i"), jnp.ones((1, 4)))


def partial_of_jitted():
    @functools.partial(jax.jit, static_argnames="n", donate_argnums=0)
    def power(x, w, n):
        return (x @ w) ** n

    return _call(functools.partial(power, n=3), jnp.ones((4, 4)), jnp.ones((4, 4)))


def partial_binding_an_array():
    f = jax.jit(lambda w, x, *, scale: jnp.tanh(x @ w) * scale)
    return _call(functools.partial(f, jnp.ones((4, 4)), scale=2.0), jnp.ones((3, 4)))


class Layer:
    """An object whose method is jitted with itself static."""

    def __init__(self):
        self.w = np.full((4, 4), 0.5, np.float32)

    @functools.partial(jax.jit, static_argnums=0)
    def apply(self, x):
        return jnp.tanh(x @ self.w)


def bound_method():
    return _call(Layer().apply, jnp.ones((3, 4)))


class Doubled:
    """A class whose class method is jitted."""

    by = 2

    @classmethod
    @functools.partial(jax.jit, static_argnums=0)
    def apply(cls, x):
        return jnp.sin(x) * cls.by


def class_method():
    return _call(Doubled.apply, jnp.ones(3))


def class_of_arrays():
    """A registered class as an argument, jitted over its method."""

    @jax.tree_util.register_dataclass
    @dataclass
    class Cell:
        w: Any
        b: Any

        @jax.jit
        def step(self, x):
            return Cell(self.w * 0.9, self.b + x.sum())

    return _call(Cell(jnp.ones(3), jnp.zeros(())).step, jnp.ones(3))


def exported():
    """A call of what was exported with a symbolic shape: resolved before it is compiled."""
    from jax import export

    argument = jax.ShapeDtypeStruct(export.symbolic_shape("a, 4"), jnp.float32)
    inner = export.export(jax.jit(lambda x: jnp.tanh(x).sum(0) * x.shape[0]))(argument)
    return _call(jax.jit(lambda x: inner.call(x) + 1), jnp.ones((3, 4)))


def float64():
    """Called and looked at with 64-bit types enabled; see `surroundings`."""
    f = jax.jit(lambda x, n: jnp.linalg.solve(x, x.sum(0)) ** n + 0.1)
    return _call(f, np.eye(4) * 3.0, 2.0)


def _cut(mesh, shape, *spec):
    return jax.device_put(jnp.ones(shape), jax.NamedSharding(mesh, jax.P(*spec)))


def fsdp_step():
    """Parameters and moments cut over all devices, gathered layer by layer, the batch too."""
    import optax

    mesh = jax.make_mesh((8,), ("all",), axis_types=(jax.sharding.AxisType.Auto,))
    optimizer = optax.adamw(1e-3)
    params = {name: _cut(mesh, (64, 64), "all", None) for name in ("first", "second")}
    state = jax.jit(optimizer.init)(params)
    state = jax.tree.map(
        lambda leaf: _cut(mesh, leaf.shape, *(("all", None) if leaf.ndim else ())), state
    )

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(params, state, x):
        def loss(params):
            y = x
            for layer in params.values():
                whole = jax.NamedSharding(mesh, jax.P())
                y = jnp.tanh(y @ jax.lax.with_sharding_constraint(layer, whole))
            return (y**2).mean()

        value, grads = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    return _call(step, params, state, _cut(mesh, (64, 64), "all", None))


def jitted_shard_map():
    mesh = jax.make_mesh((4, 2), ("data", "model"))

    def body(x, w):
        return jax.lax.psum(x @ w, "model"), jax.lax.all_gather(x, "data", tiled=True)

    outs = jax.P("data"), jax.P(None, "model")
    specs = jax.P("data", "model"), jax.P("model")
    f = jax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=outs, check_vma=False)
    return _call(jax.jit(f), _cut(mesh, (8, 8), "data", "model"), _cut(mesh, (8, 4), "model"))


def mapped_over_eight():
    def step(w, x):
        return w - 0.1 * jax.lax.pmean(jax.grad(lambda w: jnp.sum(x @ w))(w), "i")

    f = jax.pmap(step, axis_name="i", in_axes=(None, 0), donate_argnums=1)
    return _call(f, jnp.ones((4, 4)), np.ones((8, 2, 4), np.float32))


def shardings_told_to_jit():
    """Uncut arguments that jit cuts, and results that it puts elsewhere."""
    mesh = jax.make_mesh((8,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    cut, whole = jax.NamedSharding(mesh, jax.P("i")), jax.NamedSharding(mesh, jax.P())
    f = jax.jit(lambda x, w: (x @ w, w.sum()), in_shardings=(cut, whole), out_shardings=whole)
    return _call(f, np.ones((8, 4), np.float32), np.ones((4, 4), np.float32))


def explicit_mesh():
    """Types that carry their shardings."""
    mesh = jax.make_mesh((8,), ("i",), axis_types=(jax.sharding.AxisType.Explicit,))
    whole = jax.NamedSharding(mesh, jax.P(None, None))
    f = jax.jit(lambda x: jnp.sin(x) + jax.sharding.reshard(x, whole).sum())
    return _call(f, _cut(mesh, (8, 4), "i", None))


def _named(*made):
    return {each.__name__: each for each in made}


CALLS = _named(
    nnx_optimizer,
    nnx_batch_norm,
    nnx_scan,
    nnx_donating,
    equinox_step,
    equinox_state,
    linen_step,
    haiku_step,
    diffrax_gradient,
    numpyro_svi,
    blackjax_hmc,
    mjx_step,
    callbacks,
    pallas_interpreted,
    exported,
    float64,
    mapped_over_one,
    partial_of_jitted,
    partial_binding_an_array,
    bound_method,
    class_method,
    class_of_arrays,
)
ON_EIGHT_DEVICES = _named(
    fsdp_step, jitted_shard_map, mapped_over_eight, shardings_told_to_jit, explicit_mesh
)
"""These need a process with eight devices."""


# By the words that begin their names: the library that a call needs.
LIBRARIES = {
    "flax": "flax",
    "nnx": "flax",
    "equinox": "equinox",
    "linen": "flax",
    "haiku": "haiku",
    "diffrax": "diffrax",
    "numpyro": "numpyro",
    "blackjax": "blackjax",
    "mjx": "mujoco.mjx",
}


def require(name):
    """Skips the test where the library of a call is not installed."""
    if library := LIBRARIES.get(name.partition("_")[0]):
        pytest.importorskip(library)


def surroundings(name):
    """A context in which a call is made, looked at and compiled."""
    return jax.enable_x64(True) if name == "float64" else contextlib.nullcontext()
