"""Random programs over the core's primitives, and random nests of transforms round them.

A program is a list of steps; each takes values made before by their place and adds one. Every step
works at every shape, so any list is a program. The same text runs on the core and on JAX.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

SHAPES = ((), (3,), (2, 3))


def _rows(lib: Any, x: Any) -> Any:
    """At least one axis."""
    return x if x.ndim else lib.np.reshape(x, (1,))


def _fitting(x: Any, y: Any) -> Any:
    """`y`, or its sum where the two do not broadcast."""
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return y.sum()
    return y


ONE = {
    "sin": lambda lib, x: lib.np.sin(x),
    "tanh": lambda lib, x: lib.np.tanh(x),
    "neg": lambda lib, x: -x,
    "square": lambda lib, x: lib.np.square(x) * 0.5,
    "cube": lambda lib, x: x**3 * 0.1,
    "bell": lambda lib, x: lib.np.exp(-x * x),
    "root": lambda lib, x: lib.np.sqrt(x * x + 1),
    "log": lambda lib, x: lib.np.log1p(x * x),
    "sigmoid": lambda lib, x: lib.nn.sigmoid(x),
    "arctan": lambda lib, x: lib.np.arctan(x),
    "power": lambda lib, x: (x * x + 1) ** 0.3,
    "sum": lambda lib, x: _rows(lib, x).sum(-1),
    "mean": lambda lib, x: x.mean(),
    "spread": lambda lib, x: x - _rows(lib, x).mean(0),
    "prod": lambda lib, x: lib.np.prod(_rows(lib, x), axis=0),
    "max": lambda lib, x: _rows(lib, x).max(-1, keepdims=True),
    "cumsum": lambda lib, x: lib.np.cumsum(_rows(lib, x), axis=0),
    "softmax": lambda lib, x: lib.nn.softmax(_rows(lib, x)),
    "logsumexp": lambda lib, x: lib.nn.logsumexp(_rows(lib, x), axis=0),
    "sort": lambda lib, x: lib.np.sort(_rows(lib, x), axis=-1),
    "transpose": lambda lib, x: x.T,
    "flat": lambda lib, x: x.reshape(-1),
    "flip": lambda lib, x: lib.np.flip(_rows(lib, x), 0),
    "double": lambda lib, x: lib.np.concatenate([_rows(lib, x), 2 * _rows(lib, x)])[:4],
    "stack": lambda lib, x: lib.np.stack([x, lib.np.cos(x)]).sum(0),
    "pad": lambda lib, x: lib.np.pad(_rows(lib, x), 1).sum(0),
    "first": lambda lib, x: _rows(lib, x)[0],
    "every second": lambda lib, x: _rows(lib, x)[..., ::2],
    "gather": lambda lib, x: _rows(lib, x)[np.array([0, -1, 0])],
    "set": lambda lib, x: _rows(lib, x).at[0].set(0.5),
    "add at": lambda lib, x: _rows(lib, x).at[np.array([0, 0])].add(1.5),
    "matmul": lambda lib, x: _rows(lib, x).T @ _rows(lib, x),
    "einsum": lambda lib, x: lib.np.einsum("i,j->ij", x.reshape(-1)[:3], x.reshape(-1)[:2]),
    "where": lambda lib, x: lib.np.where(x > 0.1, x * x, lib.np.sin(x)),
    "clip": lambda lib, x: lib.np.clip(x, -0.9, 0.9),
    "triangle": lambda lib, x: lib.np.tril(x * lib.np.ones((3, 1))) if x.ndim < 2 else x,
    "half": lambda lib, x: (x.astype(np.float32) * 2).astype(x.dtype),
    "stop": lambda lib, x: x * lib.lax.stop_gradient(lib.np.cos(x)),
    "scan": lambda lib, x: _scan(lib, x),
    "scan back": lambda lib, x: _scan(lib, x, reverse=True),
    "cond": lambda lib, x: lib.lax.cond(
        x.sum() > 0, lambda v: lib.np.sin(v) * v, lambda v: 2.0 * v, x
    ),
    "fori": lambda lib, x: lib.lax.fori_loop(0, 3, lambda i, v: 0.5 * v + lib.np.cos(v), x),
    "jit": lambda lib, x: lib.jit(lambda v: lib.np.tanh(v) * v)(x),
    "remat": lambda lib, x: lib.checkpoint(lambda v: lib.np.sin(lib.np.sin(v)))(x),
    "vmap": lambda lib, x: lib.vmap(lambda row: (row * row).sum() + row)(_rows(lib, x)),
    "grad": lambda lib, x: lib.grad(lambda v: (lib.np.sin(v) * v).sum())(x),
}
TWO = {
    "add": lambda lib, x, y: x + y,
    "sub": lambda lib, x, y: x - y,
    "mul": lambda lib, x, y: x * y,
    "div": lambda lib, x, y: x / (y * y + 1),
    "atan2": lambda lib, x, y: lib.np.arctan2(x, y * y + 1),
    "larger": lambda lib, x, y: lib.np.maximum(x, y * 1.01),
    "choose": lambda lib, x, y: lib.np.where(x > y, x, 2 * y),
    "outer": lambda lib, x, y: lib.np.outer(x.reshape(-1)[:3], y.reshape(-1)[:3]),
    "closed over": lambda lib, x, y: lib.jit(lambda v: v * lib.np.sin(y).sum())(x),
    "scan over": lambda lib, x, y: lib.lax.scan(
        lambda c, a: (c * 0.7 + a.sum() * y.mean(), c), y.sum(), _rows(lib, x)
    )[1],
}
TRANSFORMS = ("jit", "grad", "jvp", "vjp", "vmap", "remat", "scan")


def _scan(lib: Any, x: Any, reverse: bool = False) -> Any:
    def body(carry: Any, row: Any) -> Any:
        carry = 0.5 * carry + lib.np.sin(row).sum()
        return carry, carry * row

    last, rows = lib.lax.scan(body, lib.np.zeros((), x.dtype), _rows(lib, x), reverse=reverse)
    return rows + last


@dataclass(frozen=True)
class Program:
    """Steps: the name of each, and the places of what it takes, counted from the newest value."""

    steps: tuple[tuple[str, tuple[int, ...]], ...]

    def __call__(self, lib: Any, *inputs: Any) -> Any:
        values = [*inputs]
        for name, places in self.steps:
            args = [values[-1 - place % len(values)] for place in places]
            if len(args) == 2:
                args[1] = _fitting(*args)
            values.append((ONE | TWO)[name](lib, *args))
        return sum((v.mean() for v in values[len(inputs) : -1]), values[-1])


def transformed(lib: Any, f: Any, names: tuple[str, ...]) -> Any:
    """`f` of one array under transforms, the last named outermost; always array to array."""
    for name in names:
        f = _one_transform(lib, f, name)
    return f


def _one_transform(lib: Any, f: Any, name: str) -> Any:
    np_ = lib.np
    if name == "jit":
        return lib.jit(f)
    if name == "grad":
        return lambda x: lib.grad(lambda v: np_.sin(f(v)).sum())(x)
    if name == "jvp":
        return lambda x: lib.jvp(f, (x,), (np_.cos(x),))[1]
    if name == "vjp":
        return lambda x: (lambda y, back: back(np_.ones_like(y))[0])(*lib.vjp(f, x))
    if name == "remat":
        return lib.checkpoint(f)
    if name == "scan":
        return lambda x: lib.lax.scan(lambda c, s: (c, f(x * s).mean()), 0.0, _scales(x))[1]
    return lambda x: lib.vmap(f)(np_.stack([x, 0.5 * x, x + 0.25]))


def _scales(x: Any) -> Any:
    return np.array([0.5, 1.0], x.dtype)


_steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(sorted(ONE)), st.tuples(st.integers(0, 3))),
        st.tuples(st.sampled_from(sorted(TWO)), st.tuples(st.integers(0, 3), st.integers(0, 3))),
    ),
    min_size=1,
    max_size=5,
)
programs = st.builds(Program, _steps.map(tuple))
nests = st.lists(st.sampled_from(TRANSFORMS), min_size=1, max_size=3).map(tuple)
shapes = st.sampled_from(SHAPES)
seeds = st.integers(0, 2**16)


def inputs(shape: tuple[int, ...], seed: int, dtype: Any = np.float64) -> np.ndarray:
    """An array away from the corners of the steps, with high probability."""
    return np.random.default_rng(seed).uniform(-1.2, 1.3, shape).astype(dtype)
