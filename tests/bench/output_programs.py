"""The programs whose outputs `outputs.py` holds: `PROGRAMS[name]()` gives `(f, args, kwargs)`.

Source lines appear in outputs, so an edit in here changes them: add new programs at the end.
What is imported beyond JAX is imported late.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

Call = tuple[Any, tuple[Any, ...], dict[str, Any]]
PROGRAMS: dict[str, Callable[[], Call]] = {}
SHARDED: set[str] = set()  # need eight devices


def program(f: Callable[[], Call]) -> Callable[[], Call]:
    PROGRAMS[f.__name__] = f
    return f


def call(f: Any, *args: Any, **kwargs: Any) -> Call:
    return f, args, kwargs


def normals(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape).astype(np.float32), dtype)


@program
def matmul() -> Call:
    def matmul(x, w):
        return jnp.tanh(x @ w) * 2

    return call(matmul, normals(8, 16), normals(16, 4))


@program
def mlp_step() -> Call:
    def loss(params, x, y):
        hidden = jnp.tanh(x @ params["w1"] + params["b1"])
        return jnp.mean((hidden @ params["w2"] + params["b2"] - y) ** 2)

    def step(params, x, y):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

    shapes = {"w1": (64, 128), "b1": (128,), "w2": (128, 10), "b2": (10,)}
    params = {name: jnp.full(shape, 0.01) for name, shape in shapes.items()}
    return call(step, params, jnp.ones((32, 64)), jnp.zeros((32, 10)))


@program
def scan_rnn() -> Call:
    def loss(w, xs):
        def cell(h, x):
            h = jnp.tanh(h @ w + x)
            return h, h.sum()

        return jax.lax.scan(cell, jnp.zeros(16), xs)[1].sum()

    return call(jax.grad(loss), jnp.eye(16) * 0.5, jnp.ones((20, 16)))


@program
def while_cond() -> Call:
    def root(x):
        def unfinished(state):
            guess, steps = state
            return (jnp.abs(guess * guess - x) > 1e-4) & (steps < 50)

        def improve(state):
            guess, steps = state
            return 0.5 * (guess + x / guess), steps + 1

        guess, _ = jax.lax.while_loop(unfinished, improve, (x, 0))
        return jax.lax.cond(guess > 1.0, jnp.sin, jnp.cos, guess)

    return call(root, jnp.float32(2.0))


@program
def vmap_grad() -> Call:
    def loss(w, x):
        return jnp.sum(jnp.tanh(x @ w) ** 2)

    return call(jax.vmap(jax.grad(loss), in_axes=(None, 0)), normals(8, 4), normals(5, 8))


@program
def jit_in_jit() -> Call:
    @jax.jit
    def inner(x):
        return jnp.exp(x) - 1

    @jax.jit
    def outer(x):
        for _ in range(3):
            x = inner(x) + inner(x * 2)
        return x

    return call(outer, jnp.ones(12))


class Point(NamedTuple):
    where: Any
    mass: Any


@program
def pytrees() -> Call:
    def moved(points, shift, *, scale=1.0):
        first, (second, third) = points["all"]
        return {
            "sum": first.where + second.where * scale,
            "rest": (Point(third.where - shift, first.mass + second.mass), [shift]),
        }

    def one(n):
        return Point(jnp.full((3,), float(n)), jnp.float32(n))

    return call(moved, {"all": (one(1), [one(2), one(3)])}, jnp.ones(3), scale=2.0)


@program
def static_args() -> Call:
    @functools.partial(jax.jit, static_argnames=("power", "kind"))
    def raised(x, power, kind="sum"):
        for _ in range(power - 1):
            x = x * x
        return x.sum() if kind == "sum" else x.mean()

    return call(raised, jnp.arange(6.0), power=3, kind="mean")


@program
def donation() -> Call:
    @functools.partial(jax.jit, donate_argnums=(0, 2))
    def update(state, x, unused):
        return {"a": state["a"] + x, "b": state["b"] * 2}, x.sum()

    return call(update, {"a": jnp.ones((64, 64)), "b": jnp.ones(64)}, jnp.ones(64), jnp.ones(7))


@program
def checkpointed() -> Call:
    @jax.checkpoint
    def block(w, x):
        return jnp.sin(jnp.tanh(x @ w) @ w.T)

    def loss(ws, x):
        for w in ws:
            x = block(w, x)
        return jnp.sum(x**2)

    return call(jax.grad(loss), [normals(32, 64, seed=n) for n in range(3)], normals(16, 32))


@program
def custom_vjp() -> Call:
    @jax.custom_vjp
    def clipped(x):
        return x * 1.0

    def forward(x):
        return clipped(x), x

    def backward(x, g):
        return (jnp.clip(g, -0.5, 0.5) * jnp.cos(x),)

    clipped.defvjp(forward, backward)

    @jax.custom_jvp
    def softplus(x):
        return jnp.log1p(jnp.exp(x))

    softplus.defjvp(lambda p, t: (softplus(p[0]), jax.nn.sigmoid(p[0]) * t[0]))
    return call(jax.value_and_grad(lambda x: jnp.sum(softplus(clipped(x)) ** 2)), normals(9))


@program
def closed_over() -> Call:
    table, small = np.arange(4096, dtype=np.float32).reshape(64, 64), jnp.ones(64) * 3

    def looked_up(i, x):
        return (jnp.asarray(table)[i] + small * x) @ table

    return call(looked_up, jnp.int32(3), jnp.ones(64))


@program
def low_precision() -> Call:
    def mixed(x, w, scale):
        y = (x.astype(jnp.bfloat16) @ w).astype(jnp.float32)
        return (y * scale).astype(jnp.float16), jnp.argmax(y, axis=-1), y > 0

    w = normals(16, 8, dtype=jnp.bfloat16)
    return call(mixed, normals(4, 16), w, jnp.float32(2))


@program
def attention() -> Call:
    def attend(q, k, v):
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / jnp.sqrt(q.shape[-1])
        mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        return jax.nn.softmax(jnp.where(mask, scores, -jnp.inf)) @ v

    return call(attend, *(jnp.ones((2, 4, 16, 8)) * scale for scale in (0.1, 0.2, 0.3)))


@program
def conv_fft() -> Call:
    def f(image, kernel):
        features = jax.lax.conv_general_dilated(image, kernel, (1, 1), "SAME")
        return jnp.fft.irfft2(jnp.fft.rfft2(features) * 0.5, s=features.shape[-2:])

    return call(f, jnp.ones((1, 3, 16, 16)), jnp.ones((4, 3, 3, 3)))


@program
def indexing() -> Call:
    def picked(x, i, table):
        rows = table[i]
        x = x.at[i].add(1.0).at[2:5].set(0.0)
        top, where = jax.lax.top_k(x, 3)
        return jnp.sort(x)[::-1], rows.sum(0), top, where, jnp.cumsum(x), jnp.concatenate([x, top])

    return call(picked, normals(10), jnp.array([1, 3, 3]), normals(6, 5))


@program
def random_dropout() -> Call:
    def dropped(key, x):
        first, second = jax.random.split(key)
        kept = jax.random.bernoulli(first, 0.5, x.shape)
        return jnp.where(kept, x / 0.5, 0) + jax.random.normal(second, x.shape)

    return call(dropped, jax.random.key(0), jnp.ones((4, 8)))


@program
def unrolled_loop() -> Call:
    def chained(x, w):
        for _ in range(24):
            x = jnp.tanh(x @ w) + x
        return x

    return call(chained, normals(8, 16), normals(16, 16) * 0.1)


@program
def branches_and_prints() -> Call:
    def branchy(x, n):
        total = x
        for k in range(4):
            if k % 2:  # noqa: SIM108
                total = total + jnp.sin(x) * k
            else:
                total = total - x
        print("traced", total.shape)
        dead = jnp.exp(total)
        del dead
        jax.debug.print("total {t}", t=total.sum())
        return jax.lax.switch(n, [jnp.sin, jnp.cos, jnp.tan], total)

    return call(branchy, normals(5), jnp.int32(1))


@program
def many_equations() -> Call:
    def chain(x):
        for n in range(2000):
            x = jnp.sin(x) if n % 2 else x * 1.5
        return x

    return call(chain, jnp.ones(8))


@program
def gpt_layers() -> Call:
    def layer(p, x):
        batch, length, width = x.shape
        mask = jnp.tril(jnp.ones((length, length), bool))
        q, k, v = jnp.split(x @ p["qkv"], 3, axis=-1)
        q, k, v = (t.reshape(batch, length, 4, -1).swapaxes(1, 2) for t in (q, k, v))
        scores = q @ k.swapaxes(-1, -2) / jnp.sqrt(q.shape[-1])
        mixed = jax.nn.softmax(jnp.where(mask, scores, -1e9)) @ v
        x = x + mixed.swapaxes(1, 2).reshape(batch, length, width) @ p["out"]
        return x + jax.nn.gelu(x @ p["up"]) @ p["down"]

    def loss(params, tokens):
        x = params["embed"][tokens[:, :-1]]
        for p in params["layers"]:
            x = layer(p, x)
        logits = jax.nn.log_softmax(x @ params["embed"].T)
        return -jnp.mean(jnp.take_along_axis(logits, tokens[:, 1:, None], -1))

    def step(params, first, tokens):
        value, grads = jax.value_and_grad(loss)(params, tokens)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
        return jax.tree.map(lambda p, m: p - 1e-3 * m, params, first), first, value

    shapes = {"qkv": (32, 96), "out": (32, 32), "up": (32, 128), "down": (128, 32)}
    layers = [{n: normals(*s, seed=k) for n, s in shapes.items()} for k in range(4)]
    params = {"embed": normals(64, 32), "layers": layers}
    return call(step, params, jax.tree.map(jnp.zeros_like, params), jnp.ones((2, 17), jnp.int32))


@program
def flax_nnx() -> Call:
    from flax import nnx

    class Model(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Linear(8, 16, rngs=rngs)
            self.norm = nnx.BatchNorm(16, rngs=rngs)
            self.last = nnx.Linear(16, 4, rngs=rngs)

        def __call__(self, x):
            return self.last(nnx.relu(self.norm(self.first(x))))

    @nnx.jit
    def forward(model, x):
        return model(x)

    return call(forward, Model(nnx.Rngs(0)), jnp.ones((3, 8)))


@program
def flax_nnx_grad() -> Call:
    from flax import nnx

    graph, state = nnx.split(nnx.Linear(8, 4, rngs=nnx.Rngs(0)))

    def loss(state, x):
        return jnp.mean(nnx.merge(graph, state)(x) ** 2)

    return call(jax.value_and_grad(loss), state, jnp.ones((3, 8)))


@program
def equinox_optax() -> Call:
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

    return call(update, params, optimizer.init(params), jnp.ones((8, 4)), jnp.zeros((8, 1)))


@program
def equinox_filter_jit() -> Call:
    import equinox as eqx

    model = eqx.nn.MLP(4, 2, 8, 1, key=jax.random.key(0))
    return call(eqx.filter_jit(lambda model, x: jax.vmap(model)(x).sum()), model, jnp.ones((8, 4)))


@program
def pallas_interpreted() -> Call:
    from jax.experimental import pallas as pl

    def kernel(x_ref, y_ref, out_ref):
        out_ref[...] = x_ref[...] * y_ref[...] + 1.0

    def scaled(x, y):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(kernel, out_shape=shape, interpret=True)(x, y).sum()

    return call(scaled, jnp.ones((8, 128)), jnp.full((8, 128), 2.0))


@program
def linear_algebra() -> Call:
    def solved(a, b):
        chol = jnp.linalg.cholesky(a @ a.T + jnp.eye(6))
        return jax.scipy.linalg.solve_triangular(chol, b, lower=True), jnp.linalg.det(a)

    return call(solved, normals(6, 6), normals(6))


@program
def shapes_only() -> Call:
    def wide(x, *, w):
        return jax.nn.gelu(x @ w).astype(jnp.int8)

    x = jax.ShapeDtypeStruct((128, 256), jnp.float32)
    return call(wide, x, w=jax.ShapeDtypeStruct((256, 64), jnp.float32))


@program
def lowered() -> Call:
    f, args, _ = matmul()
    return call(jax.jit(f).lower(*args))


@program
def traced() -> Call:
    f, args, _ = scan_rnn()
    return call(jax.jit(f).trace(*args))


@program
def compiled() -> Call:
    f, args, _ = matmul()
    return call(jax.jit(f).lower(*args).compile(), *args)


@program
def exported() -> Call:
    from jax import export

    f, args, _ = matmul()
    return call(export.export(jax.jit(f))(*args))


@program
def hlo_text() -> Call:
    f, args, _ = mlp_step()
    return call(jax.jit(f).lower(*args).compile().as_text())


@program
def stablehlo_text() -> Call:
    f, args, _ = while_cond()
    return call(jax.jit(f).lower(*args).as_text())


@program
def core_loss() -> Call:
    import jaxlens.core.numpy as cnp

    def loss(w, x):
        return cnp.tanh(x @ w).sum()

    return call(loss, cnp.ones((3, 4)), cnp.ones((2, 3)))


@program
def core_grad() -> Call:
    import jaxlens.core.numpy as cnp
    from jaxlens import core

    def loss(w, x):
        return (cnp.tanh(x @ w) ** 2).sum()

    grads = core.vmap(core.grad(loss), in_axes=(None, 0))
    return call(core.jit(grads), cnp.ones((3, 4)), cnp.ones((2, 3)))


def _mesh(shape: tuple[int, ...], names: tuple[str, ...]) -> Any:
    auto = jax.sharding.AxisType.Auto
    return jax.make_mesh(shape, names, axis_types=(auto,) * len(names))


def _put(mesh: Any, value: Any, *spec: Any) -> Any:
    return jax.device_put(value, jax.sharding.NamedSharding(mesh, jax.P(*spec)))


def sharded(f: Callable[[], Call]) -> Callable[[], Call]:
    SHARDED.add(f.__name__)
    return program(f)


@sharded
def sharded_matmul() -> Call:
    mesh = _mesh((8,), ("devices",))

    def product(x, w):
        y = jnp.tanh(x @ w)
        return y, (y * y).sum()

    rows = _put(mesh, jnp.ones((64, 32)), "devices", None)
    return call(product, rows, _put(mesh, jnp.ones((32, 64)), None, "devices"))


@sharded
def sharded_step() -> Call:
    mesh = _mesh((4, 2), ("data", "model"))

    def loss(params, x, y):
        hidden = jnp.tanh(x @ params["w1"])
        return jnp.mean((hidden @ params["w2"] - y) ** 2)

    @jax.jit
    def step(params, x, y):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

    params = {
        "w1": _put(mesh, jnp.ones((64, 128)), None, "model"),
        "w2": _put(mesh, jnp.ones((128, 32)), "model", None),
    }
    x, y = jnp.ones((16, 64)), jnp.ones((16, 32))
    return call(step, params, _put(mesh, x, "data", None), _put(mesh, y, "data", None))


@sharded
def shard_mapped() -> Call:
    mesh = _mesh((4, 2), ("data", "model"))

    def body(x):
        looped = jax.lax.scan(lambda c, _: (jax.lax.psum(c, "data") / 2, None), x, None, 10)[0]
        turned = jax.lax.ppermute(x, "data", [(0, 1), (1, 2), (2, 3), (3, 0)])
        return looped, jax.lax.all_gather(x, "model"), turned

    cells = jax.P("data", "model")
    outs = (cells, jax.P(None, "data"), cells)
    mapped = jax.shard_map(body, mesh=mesh, in_specs=cells, out_specs=outs, check_vma=False)
    return call(mapped, _put(mesh, jnp.ones((64, 32)), "data", "model"))
