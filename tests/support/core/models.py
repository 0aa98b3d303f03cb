"""Programs of the sizes that people write, each once, for JAX and for the core.

A program takes a library: its NumPy, its `lax`, its transforms. Nothing else tells them apart.
"""

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxlens.core.numpy as cnp
from jaxlens import core
from jaxlens.core import lax as core_lax
from jaxlens.core import nn as core_nn
from jaxlens.core import random as core_random


class Named:
    """A module of the core, with JAX's functions, which the core runs, under all other names."""

    def __init__(self, ours: Any, theirs: Any) -> None:
        self.ours, self.theirs = ours, theirs

    def __getattr__(self, name: str) -> Any:
        if hasattr(self.ours, name):
            return getattr(self.ours, name)
        return self._by_jax(getattr(self.theirs, name))

    def _by_jax(self, f: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            arrays = [arg for arg in args if hasattr(arg, "shape")]

            def of_arrays(*arrays: Any) -> Any:
                given = iter(arrays)
                filled = [next(given) if hasattr(arg, "shape") else arg for arg in args]
                return f(*filled, **options)

            return core.from_jax(of_arrays)(*arrays)

        return call


_SHARED = (
    "checkpoint custom_jvp custom_vjp grad hessian jacfwd jit jvp linearize make_jaxpr random "
    "value_and_grad vjp vmap".split()
)


def _library(name: str, library: Any, **parts: Any) -> SimpleNamespace:
    """A library under names that JAX and the core share."""
    shared = {word: getattr(library, word) for word in _SHARED}
    return SimpleNamespace(**({"name": name, "map": jax.tree.map} | shared | parts))


JAX = _library("jax", jax, np=jnp, lax=jax.lax, nn=jax.nn)
CORE = _library(
    "core",
    core,
    np=Named(cnp, jnp),
    lax=Named(core_lax, jax.lax),
    nn=Named(core_nn, jax.nn),
    random=core_random,
    map=core.tree_map,
)
Params = Any


def normals(*shapes: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    """Arrays of random numbers, f32, small by the number of inputs that an output adds up."""
    draw = np.random.default_rng(seed)
    fans = [np.prod(s[1:]) if len(s) == 4 else s[0] for s in shapes]
    pairs = zip(shapes, fans, strict=True)
    return [(draw.normal(size=s) * np.sqrt(1 / fan)).astype(np.float32) for s, fan in pairs]


def descend(lib: Any, params: Params, grads: Params, rate: float) -> Params:
    """A step of gradient descent."""
    return lib.map(lambda p, g: p - rate * g, params, grads)


def cross_entropy(lib: Any, logits: Any, labels: Any) -> Any:
    """The mean over examples; labels are integers."""
    chosen = lib.nn.one_hot(labels, logits.shape[-1])
    return -(chosen * lib.nn.log_softmax(logits)).sum() / logits.shape[0]


# ---- digits: a perceptron and a convolutional network -------------------------------------------


def mlp_params() -> Params:
    w1, w2 = normals((64, 64), (64, 10))
    zeros = np.zeros
    return [{"w": w1, "b": zeros(64, np.float32)}, {"w": w2, "b": zeros(10, np.float32)}]


def mlp(lib: Any, params: Params, x: Any) -> Any:
    """f32[n, 64] to logits f32[n, 10]."""
    for layer in params[:-1]:
        x = lib.nn.relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def cnn_params() -> Params:
    k1, k2, w = normals((8, 1, 3, 3), (16, 8, 3, 3), (64, 10), seed=1)
    return {"k1": k1, "k2": k2, "w": w, "b": np.zeros(10, np.float32)}


def cnn(lib: Any, params: Params, x: Any) -> Any:
    """f32[n, 64], images of 8 x 8, to logits f32[n, 10]."""
    x = x.reshape(-1, 1, 8, 8)
    for kernel in (params["k1"], params["k2"]):
        x = lib.nn.relu(lib.lax.conv_general_dilated(x, kernel, (1, 1), "SAME"))
        n, c, h, w = x.shape
        x = x.reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5))
    return x.reshape(x.shape[0], -1) @ params["w"] + params["b"]


def classifier_step(lib: Any, model: Any, rate: float = 0.5) -> Any:
    """`step(params, x, labels) -> (params, loss)`, jitted."""

    @lib.jit
    def step(params: Params, x: Any, labels: Any) -> Any:
        def loss(params: Params) -> Any:
            return cross_entropy(lib, model(lib, params, x), labels)

        value, grads = lib.value_and_grad(loss)(params)
        return descend(lib, params, grads, rate), value

    return step


# ---- a recurrent network by scan ----------------------------------------------------------------


def rnn_params(width: int = 16, inputs: int = 4) -> Params:
    w, u, o = normals((width, width), (inputs, width), (width, 1), seed=2)
    return {"w": w, "u": u, "o": o}


def rnn(lib: Any, params: Params, xs: Any) -> Any:
    """f32[time, inputs] to one number."""

    def cell(state: Any, x: Any) -> Any:
        state = lib.np.tanh(state @ params["w"] + x @ params["u"])
        return state, state @ params["o"]

    start = lib.np.zeros(params["w"].shape[0])
    state, outputs = lib.lax.scan(cell, start, xs)
    return outputs.sum() + (state**2).mean()


def rnn_step(lib: Any, rate: float = 0.01) -> Any:
    """`step(params, batch) -> (params, loss)` over a batch, jitted."""

    @lib.jit
    def step(params: Params, batch: Any) -> Any:
        def loss(params: Params) -> Any:
            return (lib.vmap(lambda xs: rnn(lib, params, xs))(batch) ** 2).mean()

        value, grads = lib.value_and_grad(loss)(params)
        return descend(lib, params, grads, rate), value

    return step


# ---- a transformer ------------------------------------------------------------------------------


def transformer_params(layers: int = 2, width: int = 16, vocab: int = 32) -> Params:
    embed, out = normals((vocab, width), (width, vocab), seed=3)
    blocks = []
    for n in range(layers):
        q, k, v, o, up, down = normals(
            *[(width, width)] * 4, (width, 2 * width), (2 * width, width), seed=4 + n
        )
        ones, zeros = np.ones(width, np.float32), np.zeros(width, np.float32)
        blocks.append(
            {"q": q, "k": k, "v": v, "o": o, "up": up, "down": down, "scale": ones, "shift": zeros}
        )
    return {"embed": embed, "out": out, "blocks": blocks}


def normalised(lib: Any, x: Any, scale: Any, shift: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    spread = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / lib.np.sqrt(spread + 1e-5) * scale + shift


def attention(lib: Any, block: Params, x: Any, heads: int = 2) -> Any:
    length, width = x.shape
    q, k, v = ((x @ block[n]).reshape(length, heads, width // heads) for n in "qkv")
    scores = lib.np.einsum("qhd,khd->hqk", q, k) / np.float32(np.sqrt(width // heads))
    causal = lib.np.tril(lib.np.ones((length, length))) > 0
    weights = lib.nn.softmax(lib.np.where(causal, scores, -1e9))
    return lib.np.einsum("hqk,khd->qhd", weights, v).reshape(length, width) @ block["o"]


def transformer(lib: Any, params: Params, tokens: Any) -> Any:
    """i32[length] to logits f32[length, vocab]."""
    x = params["embed"][tokens]
    for block in params["blocks"]:
        x = x + attention(lib, block, normalised(lib, x, block["scale"], block["shift"]))
        x = x + lib.nn.gelu(x @ block["up"]) @ block["down"]
    return x @ params["out"]


def transformer_step(lib: Any, rate: float = 0.1) -> Any:
    """`step(params, tokens) -> (params, loss)` over a batch i32[n, length + 1], jitted."""

    @lib.jit
    def step(params: Params, tokens: Any) -> Any:
        def loss(params: Params) -> Any:
            logits = lib.vmap(lambda t: transformer(lib, params, t))(tokens[:, :-1])
            return lib.vmap(lambda a, b: cross_entropy(lib, a, b))(logits, tokens[:, 1:]).mean()

        value, grads = lib.value_and_grad(loss)(params)
        return descend(lib, params, grads, rate), value

    return step


# ---- an ordinary differential equation, learnt --------------------------------------------------


def ode_params() -> Params:
    w1, w2 = normals((2, 16), (16, 2), seed=7)
    return {"w1": w1, "w2": w2}


def solved(lib: Any, params: Params, y: Any, steps: int = 20, dt: float = 0.1) -> Any:
    """The path of y' = f(y) by Runge and Kutta's method of fourth order: f32[steps, 2]."""

    def slope(y: Any) -> Any:
        return lib.np.tanh(y @ params["w1"]) @ params["w2"]

    def step(y: Any, _: Any) -> Any:
        a = slope(y)
        b = slope(y + dt / 2 * a)
        c = slope(y + dt / 2 * b)
        d = slope(y + dt * c)
        y = y + dt / 6 * (a + 2 * b + 2 * c + d)
        return y, y

    return lib.lax.scan(step, y, None, length=steps)[1]


def ode_step(lib: Any, rate: float = 0.05) -> Any:
    """`step(params, start, path) -> (params, loss)`, jitted."""

    @lib.jit
    def step(params: Params, start: Any, path: Any) -> Any:
        def loss(params: Params) -> Any:
            return ((solved(lib, params, start, len(path)) - path) ** 2).mean()

        value, grads = lib.value_and_grad(loss)(params)
        return descend(lib, params, grads, rate), value

    return step


# ---- Newton's method ----------------------------------------------------------------------------


def rosenbrock(x: Any) -> Any:
    """Least at (1, 1), along a bent valley."""
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


def newton(lib: Any, start: Any, steps: int = 8) -> Any:
    """The minimum of `rosenbrock` from a start, by its gradient and Hessian."""

    def step(_: Any, x: Any) -> Any:
        (a, b), (c, d) = lib.hessian(rosenbrock)(x)
        g = lib.grad(rosenbrock)(x)
        return x - lib.np.stack([d * g[0] - b * g[1], a * g[1] - c * g[0]]) / (a * d - b * c)

    return lib.jit(lambda x: lib.lax.fori_loop(0, steps, step, x))(start)
