"""Real programs, shared by tests and benchmarks: each function returns `(f, args)`.

The five at the end need the libraries of the dependency group `models`, and import them late.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Program = tuple[Callable[..., Any], tuple[Any, ...]]


def predict(params, x):
    return jax.nn.relu(x @ params["w"] + params["b"])


def mlp_step() -> Program:
    """One gradient step of two dense layers."""

    def loss(params, x, y):
        hidden = jnp.tanh(x @ params["w1"] + params["b1"])
        return jnp.mean((hidden @ params["w2"] + params["b2"] - y) ** 2)

    def step(params, x, y):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

    shapes = {"w1": (64, 128), "b1": (128,), "w2": (128, 10), "b2": (10,)}
    params = {name: jnp.full(shape, 0.01) for name, shape in shapes.items()}
    return step, (params, jnp.ones((32, 64)), jnp.zeros((32, 10)))


def wide_step() -> Program:
    """One gradient step of two dense layers whose products take a while, on shapes."""

    def loss(weights, x, y):
        hidden = jnp.tanh(x @ weights[0])
        return jnp.mean((hidden @ weights[1] - y) ** 2)

    def step(weights, x, y):
        value, grads = jax.value_and_grad(loss)(weights, x, y)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, grads), value

    square, data = (jax.ShapeDtypeStruct((n, 2048), jnp.float32) for n in (2048, 8192))
    return step, ([square, square], data, data)


def attention() -> Program:
    """Scaled dot-product attention with a causal mask, batch 2, 4 heads, 16 positions."""

    def attend(q, k, v):
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / jnp.sqrt(q.shape[-1])
        mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        return jax.nn.softmax(jnp.where(mask, scores, -jnp.inf)) @ v

    return attend, tuple(jnp.ones((2, 4, 16, 8)) * scale for scale in (0.1, 0.2, 0.3))


def scan_rnn() -> Program:
    """The gradient of an RNN of 20 steps written with `lax.scan`."""

    def loss(w, xs):
        def cell(h, x):
            h = jnp.tanh(h @ w + x)
            return h, h.sum()

        return jax.lax.scan(cell, jnp.zeros(16), xs)[1].sum()

    return jax.grad(loss), (jnp.eye(16) * 0.5, jnp.ones((20, 16)))


def while_cond() -> Program:
    """Newton's square root with a `while_loop`, and a `cond` on its result."""

    def root(x):
        def unfinished(state):
            guess, steps = state
            return (jnp.abs(guess * guess - x) > 1e-4) & (steps < 50)

        def improve(state):
            guess, steps = state
            return 0.5 * (guess + x / guess), steps + 1

        guess, _ = jax.lax.while_loop(unfinished, improve, (x, 0))
        return jax.lax.cond(guess > 1.0, jnp.sin, jnp.cos, guess)

    return root, (jnp.float32(2.0),)


def conv_fft() -> Program:
    """A convolution, then a filter in the frequency domain."""

    def f(image, kernel):
        features = jax.lax.conv_general_dilated(image, kernel, (1, 1), "SAME")
        return jnp.fft.irfft2(jnp.fft.rfft2(features) * 0.5, s=features.shape[-2:])

    return f, (jnp.ones((1, 3, 16, 16)), jnp.ones((4, 3, 3, 3)))


def _gpt_layer(p: dict[str, Any], x: jax.Array, heads: int) -> jax.Array:
    batch, length, width = x.shape
    mask = jnp.tril(jnp.ones((length, length), bool))

    def norm(v, name):
        v = v - v.mean(-1, keepdims=True)
        v = v * jax.lax.rsqrt(jnp.mean(v * v, -1, keepdims=True) + 1e-5)
        return v * p[f"{name} scale"] + p[f"{name} offset"] if f"{name} scale" in p else v

    def dense(v, name):
        v = v @ p[name]
        return v + p[f"{name} bias"] if f"{name} bias" in p else v

    q, k, v = jnp.split(dense(norm(x, "first"), "qkv"), 3, axis=-1)
    q, k, v = (t.reshape(batch, length, heads, -1).swapaxes(1, 2) for t in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) / jnp.sqrt(q.shape[-1])
    mixed = jax.nn.softmax(jnp.where(mask, scores, -1e9)) @ v
    x = x + dense(mixed.swapaxes(1, 2).reshape(batch, length, width), "out")
    return x + dense(jax.nn.gelu(dense(norm(x, "second"), "up")), "down")


def gpt_step(
    layers: int = 12,
    width: int = 64,
    length: int = 32,
    vocab: int = 256,
    biases: bool = False,
    scanned: bool = False,
) -> Program:
    """A GPT-style train step, layers unrolled: loss, gradients and Adam. Batch 2, 4 heads.

    With `biases` a layer has those of its dense layers and norms too: 48 layers make about
    18,000 equations, without them 11,000. If `scanned`, `lax.scan` runs over the stacked layers.
    """

    def loss(params, tokens):
        x = params["embed"][tokens[:, :-1]] + params["place"]
        if scanned:
            x, _ = jax.lax.scan(lambda x, p: (_gpt_layer(p, x, heads=4), None), x, params["layers"])
        else:
            for layer in params["layers"]:
                x = _gpt_layer(layer, x, heads=4)
        logits = jax.nn.log_softmax(x @ params["embed"].T)
        return -jnp.mean(jnp.take_along_axis(logits, tokens[:, 1:, None], -1))

    def train_step(params, first, second, step, tokens):
        value, grads = jax.value_and_grad(loss)(params, tokens)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, grads)
        scale = jnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        params = jax.tree.map(
            lambda p, m, v: p - 1e-3 * scale * m / (jnp.sqrt(v) + 1e-8), params, first, second
        )
        return params, first, second, step + 1, value

    rng = np.random.default_rng(0)

    def weight(*shape):  # by NumPy, as JAX would compile a program for each shape
        return jnp.asarray(0.02 * rng.standard_normal(shape, np.float32))

    small = {"qkv bias": 3, "out bias": 1, "up bias": 4, "down bias": 1}
    small |= {f"{norm} {part}": 1 for norm in ("first", "second") for part in ("scale", "offset")}

    params = {
        "embed": weight(vocab, width),
        "place": weight(length, width),
        "layers": [
            {
                "qkv": weight(width, 3 * width),
                "out": weight(width, width),
                "up": weight(width, 4 * width),
                "down": weight(4 * width, width),
                **({name: weight(n * width) for name, n in small.items()} if biases else {}),
            }
            for _ in range(layers)
        ],
    }
    if scanned:
        params["layers"] = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params["layers"])
    zeros = jax.tree.map(lambda w: jnp.asarray(np.zeros(w.shape, w.dtype)), params)
    tokens = jnp.ones((2, length + 1), jnp.int32)
    return train_step, (params, zeros, zeros, jnp.float32(1), tokens)


def straight_line(equations: int) -> Program:
    """As many equations as asked for, each reading the one before it."""

    def chain(x):
        for n in range(equations):
            x = jnp.sin(x) if n % 2 else x * 1.5
        return x

    return chain, (jnp.ones(8),)


def flax_nnx() -> Program:
    """The loss and gradient of a Flax NNX model with batch norm, its new state beside it."""
    from flax import nnx

    class Model(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Linear(8, 16, rngs=rngs)
            self.norm = nnx.BatchNorm(16, rngs=rngs)
            self.last = nnx.Linear(16, 4, rngs=rngs)

        def __call__(self, x):
            return self.last(nnx.relu(self.norm(self.first(x))))

    graph, state = nnx.split(Model(nnx.Rngs(0)))

    def loss(state, x):
        model = nnx.merge(graph, state)
        return jnp.mean(model(x) ** 2), nnx.state(model)

    return jax.value_and_grad(loss, has_aux=True, allow_int=True), (state, jnp.ones((3, 8)))


def equinox_optax() -> Program:
    """An Equinox MLP with an Optax Adam update."""
    import equinox as eqx
    import optax

    model = eqx.nn.MLP(4, 1, 16, 2, key=jax.random.key(0))
    params, static = eqx.partition(model, eqx.is_array)
    optimizer = optax.adam(1e-3)

    def loss(params, x, y):
        return jnp.mean((jax.vmap(eqx.combine(params, static))(x) - y) ** 2)

    def update(params, state, x, y):
        grads = jax.grad(loss)(params, x, y)
        updates, state = optimizer.update(grads, state, params)
        return eqx.apply_updates(params, updates), state

    return update, (params, optimizer.init(params), jnp.ones((8, 4)), jnp.zeros((8, 1)))


def diffrax_solve() -> Program:
    """A Diffrax solve of a damped oscillator with an adaptive step."""
    import diffrax

    def solve(y0, damping):
        term = diffrax.ODETerm(lambda t, y, c: jnp.stack([y[1], -y[0] - c * y[1]]))
        solution = diffrax.diffeqsolve(
            term,
            diffrax.Tsit5(),
            t0=0.0,
            t1=5.0,
            dt0=0.1,
            y0=y0,
            args=damping,
            stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-6),
        )
        return solution.ys[-1]

    return solve, (jnp.array([1.0, 0.0]), jnp.float32(0.2))


def numpyro_potential() -> Program:
    """The gradient of a NumPyro potential energy: a linear regression."""
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer.util import potential_energy

    def model(x, y):
        slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
        noise = numpyro.sample("noise", dist.HalfNormal(1.0))
        numpyro.sample("y", dist.Normal(x * slope, noise), obs=y)

    def potential(slope, noise, x, y):
        return potential_energy(model, (x, y), {}, {"slope": slope, "noise": noise})

    x = jnp.linspace(0.0, 1.0, 16)
    return jax.grad(potential, argnums=(0, 1)), (jnp.float32(0.5), jnp.float32(0.1), x, 2 * x)


def sharded_step(devices: Any) -> Program:
    """A train step on four devices: the batch cut over two, the hidden layer over two."""
    _, cut = _four(devices)

    def loss(params, x, y):
        hidden = jnp.tanh(x @ params["w1"])
        return jnp.mean((hidden @ params["w2"] - y) ** 2)

    def step(params, x, y):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

    params = {"w1": cut((256, 512), None, "model"), "w2": cut((512, 128), "model", None)}
    return step, (params, cut((64, 256), "data", None), cut((64, 128), "data", None))


def fsdp_step(devices: Any) -> Program:
    """A train step of four layers on four devices, weights and batch cut over all of them."""
    mesh = jax.sharding.Mesh(
        np.array(devices[:4]), ("data",), axis_types=(jax.sharding.AxisType.Auto,)
    )
    cut = jax.sharding.NamedSharding(mesh, jax.P("data", None))

    def loss(weights, x):
        for w in weights:
            x = jnp.tanh(x @ w)
        return jnp.mean(x**2)

    def step(weights, x):
        return [w - 0.1 * g for w, g in zip(weights, jax.grad(loss)(weights, x), strict=True)]

    weights = [jax.ShapeDtypeStruct((2048, 2048), jnp.bfloat16, sharding=cut) for _ in range(4)]
    x = jax.ShapeDtypeStruct((1024, 2048), jnp.bfloat16, sharding=cut)
    return jax.jit(step, out_shardings=cut), (weights, x)


def exchanges(devices: Any) -> Program:
    """One of each collective on four devices, and one in a loop of ten."""
    mesh, cut = _four(devices)

    def body(x):
        looped = jax.lax.scan(lambda c, _: (jax.lax.psum(c, "data") / 2, None), x, None, 10)[0]
        gathered = jax.lax.all_gather(x, "model")
        turned = jax.lax.ppermute(x, "data", [(0, 1), (1, 0)])
        scattered = jax.lax.psum_scatter(x * 3, "model", tiled=True)
        swapped = jax.lax.all_to_all(x + 1, "data", 1, 0, tiled=True)
        return looped, gathered, turned, scattered, swapped

    cells = jax.P("data", "model")
    outs = (cells, jax.P(None, "data"), cells, jax.P(("data", "model")), cells)
    each = jax.shard_map(body, mesh=mesh, in_specs=cells, out_specs=outs, check_vma=False)
    return lambda x: each(x), (cut((64, 256), "data", "model"),)


def psum_step(devices: Any) -> Program:
    """A train step of two layers in a `shard_map`: each device has a part of the batch."""
    mesh, cut = _four(devices)

    def loss(weights, x):
        for w in weights:
            x = jnp.tanh(x @ w)
        return jnp.mean(x**2)

    def body(weights, x):
        grads = [jax.lax.psum(g, "data") for g in jax.grad(loss)(weights, x)]
        return [w - 0.1 * g for w, g in zip(weights, grads, strict=True)]

    step = jax.shard_map(
        body, mesh=mesh, in_specs=(jax.P(), jax.P("data")), out_specs=jax.P(), check_vma=False
    )
    return step, ([cut((256, 256)), cut((256, 256))], cut((64, 256), "data"))


def _four(devices: Any) -> tuple[Any, Callable[..., jax.ShapeDtypeStruct]]:
    """A mesh of two by two, and arrays cut over it, of which only the shapes are there."""
    grid = np.array(devices[:4]).reshape(2, 2)
    mesh = jax.sharding.Mesh(grid, ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)

    def cut(shape, *spec):
        sharding = jax.sharding.NamedSharding(mesh, jax.P(*spec))
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)

    return mesh, cut


SMALL = {f.__name__: f for f in (mlp_step, attention, scan_rnn, while_cond, conv_fft)}
MODELS = {f.__name__: f for f in (flax_nnx, equinox_optax, diffrax_solve, numpyro_potential)}
