"""The programs whose outputs `outputs.py` holds: `PROGRAMS[name]()` gives `(f, args, kwargs)`.

The real ones are those of `tests/support/programs.py`, which lies beside this file when it runs.
Source lines appear in outputs, so an edit in here changes them: add new programs at the end.
What is imported beyond JAX is imported late.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import programs

Call = tuple[Any, tuple[Any, ...], dict[str, Any]]
PROGRAMS: dict[str, Callable[[], Call]] = {}


def program(f):
    PROGRAMS[f.__name__] = f
    return f


def call(f, *args, **kwargs):
    return f, args, kwargs


def normals(*shape, seed=0, dtype=np.float32):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape).astype(np.float32), dtype)


def real(name, make, *given, **options):
    """Adds one of the shared programs."""

    def made():
        f, args = make(*given, **options)
        return call(f, *args)

    PROGRAMS[name] = made


real("mlp_step", programs.mlp_step)
real("attention", programs.attention)
real("scan_rnn", programs.scan_rnn)
real("while_cond", programs.while_cond)
real("conv_fft", programs.conv_fft)
real("flax_nnx", programs.flax_nnx)
real("equinox_optax", programs.equinox_optax)
real("diffrax_solve", programs.diffrax_solve)
real("numpyro_potential", programs.numpyro_potential)
real("gpt_step", programs.gpt_step, layers=4)
real("many_equations", programs.straight_line, 2000)
real("sharded_step", lambda: programs.sharded_step(jax.devices()))
real("exchanges", lambda: programs.exchanges(jax.devices()))


@program
def matmul():
    def matmul(x, w):
        return jnp.tanh(x @ w) * 2

    return call(matmul, normals(8, 16), normals(16, 4))


@program
def vmap_grad():
    def loss(w, x):
        return jnp.sum(jnp.tanh(x @ w) ** 2)

    return call(jax.vmap(jax.grad(loss), in_axes=(None, 0)), normals(8, 4), normals(5, 8))


class Point(NamedTuple):
    where: Any
    mass: Any


@program
def pytrees():
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
def static_args():
    @functools.partial(jax.jit, static_argnames=("power", "kind"))
    def raised(x, power, kind="sum"):
        for _ in range(power - 1):
            x = x * x
        return x.sum() if kind == "sum" else x.mean()

    return call(raised, jnp.arange(6.0), power=3, kind="mean")


@program
def donation():
    @functools.partial(jax.jit, donate_argnums=(0, 2))
    def update(state, x, unused):
        return {"a": state["a"] + x, "b": state["b"] * 2}, x.sum()

    return call(update, {"a": jnp.ones((64, 64)), "b": jnp.ones(64)}, jnp.ones(64), jnp.ones(7))


@program
def checkpointed():
    @jax.checkpoint
    def block(w, x):
        return jnp.sin(jnp.tanh(x @ w) @ w.T)

    def loss(ws, x):
        for w in ws:
            x = block(w, x)
        return jnp.sum(x**2)

    return call(jax.grad(loss), [normals(32, 64, seed=n) for n in range(3)], normals(16, 32))


@program
def custom_vjp():
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
def closed_over():
    table, small = np.arange(4096, dtype=np.float32).reshape(64, 64), jnp.ones(64) * 3

    def looked_up(i, x):
        return (jnp.asarray(table)[i] + small * x) @ table

    return call(looked_up, jnp.int32(3), jnp.ones(64))


@program
def low_precision():
    def mixed(x, w, scale):
        y = (x.astype(jnp.bfloat16) @ w).astype(jnp.float32)
        return (y * scale).astype(jnp.float16), jnp.argmax(y, axis=-1), y > 0

    w = normals(16, 8, dtype=jnp.bfloat16)
    return call(mixed, normals(4, 16), w, jnp.float32(2))


@program
def random_dropout():
    def dropped(key, x):
        first, second = jax.random.split(key)
        kept = jax.random.bernoulli(first, 0.5, x.shape)
        return jnp.where(kept, x / 0.5, 0) + jax.random.normal(second, x.shape)

    return call(dropped, jax.random.key(0), jnp.ones((4, 8)))


@program
def branches_and_prints():
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
def equinox_filter_jit():
    import equinox as eqx

    model = eqx.nn.MLP(4, 2, 8, 1, key=jax.random.key(0))
    return call(eqx.filter_jit(lambda model, x: jax.vmap(model)(x).sum()), model, jnp.ones((8, 4)))


@program
def pallas_interpreted():
    from jax.experimental import pallas as pl

    def kernel(x_ref, y_ref, out_ref):
        out_ref[...] = x_ref[...] * y_ref[...] + 1.0

    def scaled(x, y):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(kernel, out_shape=shape, interpret=True)(x, y).sum()

    return call(scaled, jnp.ones((8, 128)), jnp.full((8, 128), 2.0))


@program
def lowered():
    f, args, _ = matmul()
    return call(jax.jit(f).lower(*args))


@program
def compiled():
    f, args, _ = matmul()
    return call(jax.jit(f).lower(*args).compile(), *args)


@program
def exported():
    from jax import export

    f, args, _ = matmul()
    return call(export.export(jax.jit(f))(*args))


@program
def hlo_text():
    f, args = programs.mlp_step()
    return call(jax.jit(f).lower(*args).compile().as_text())


@program
def core_grad():
    import jaxlens.core.numpy as cnp
    from jaxlens import core

    def loss(w, x):
        return (cnp.tanh(x @ w) ** 2).sum()

    grads = core.vmap(core.grad(loss), in_axes=(None, 0))
    return call(core.jit(grads), cnp.ones((3, 4)), cnp.ones((2, 3)))
