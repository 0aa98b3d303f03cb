"""Scans, folds and their derivatives against JAX: values, memory, jaxprs, errors."""

from typing import Any

import jax
import numpy as np
import pytest

from jaxlens import core
from tests.support.core.alike import (
    CORE,
    EVERY,
    JAX,
    MOST,
    alike,
    as_weak,
    compiled_before,
    names,
    refused,
    same,
)
from tests.support.documents import approved

pytestmark = pytest.mark.backend
X = np.array([0.3, -0.4, 1.2], np.float32)
W = np.linspace(-0.5, 0.5, 9, dtype=np.float32).reshape(3, 3)
ROWS = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)


def _rnn(lib: Any, x: Any, **options: Any) -> Any:
    """Constants with a tangent, a carry, rows with a tangent, a counter."""
    w = lib.np.outer(x, x)

    def step(carry: Any, row: Any) -> Any:
        h, n = carry
        h = lib.np.sin(w @ h + row["a"] * row["b"] + lib.np.cos(x))
        return (h, n + 1), {"h": h * n, "n": n}

    rows = {"a": ROWS * x, "b": ROWS}
    return lib.lax.scan(step, (x, 0), rows, **options)


def _nested(lib: Any, x: Any) -> Any:
    """A scan in a branch of a scan."""

    def inner(c: Any) -> Any:
        return lib.lax.scan(lambda c, y: (lib.np.sin(c) * y, c.sum()), c, ROWS[:2])[0]

    def outer(c: Any, y: Any) -> Any:
        c = lib.lax.cond(c.sum() > 0, inner, lambda v: v * x, c)
        return c, lib.jit(lambda v: v * 2)(c * y)

    return lib.lax.scan(outer, x, ROWS[1:4])


def _no_rows(lib: Any, x: Any) -> Any:
    return lib.lax.scan(lambda c, _: (c * x, None), x, None, length=3)


def _no_carry(lib: Any, x: Any) -> Any:
    return lib.lax.map(lambda row: (row * x).sum(), ROWS)


def _fixed(lib: Any, x: Any) -> Any:
    return lib.lax.fori_loop(1, 4, lambda i, c: {"v": lib.np.sin(c["v"]) * i + x}, {"v": x})


def _swapped(lib: Any, x: Any) -> Any:
    """A tangent that reaches a carried value only after turns, and one that is never used."""

    def step(c: Any, _: Any) -> Any:
        a, b, d = c
        return (b, d, lib.np.sin(d) * x), a

    one = lib.np.ones_like(x)
    return lib.lax.scan(step, (one, one, one), None, length=4)


SCANS = {
    "rnn": _rnn,
    "from the last row": lambda lib, x: _rnn(lib, x, reverse=True),
    "unrolled": lambda lib, x: _rnn(lib, x, unroll=2),
    "nested": _nested,
    "no rows": _no_rows,
    "no carry": _no_carry,
    "fori_loop": _fixed,
    "swapped": _swapped,
}


@pytest.mark.parametrize("name", SCANS)
def test_scans(name: str) -> None:
    few = {"rnn": EVERY, "from the last row": ("value", "grad"), "unrolled": ("value", "grad")}
    alike(lambda lib: lambda x: SCANS[name](lib, x), X, few.get(name, MOST))


@pytest.mark.parametrize("unroll", [True, 3, 5, 9])
@pytest.mark.parametrize("length", [0, 1, 5])
def test_lengths(unroll: int, length: int) -> None:
    def f(lib: Any) -> Any:
        return lambda c, xs: lib.lax.scan(
            lambda c, x: (c + x, c * x), c, xs, unroll=unroll if length else 1, reverse=length == 5
        )

    same(core.jit(f(CORE))(X, ROWS[:length]), f(JAX)(X, ROWS[:length]))


def _prefixes(lib: Any, x: Any) -> Any:
    """The solution of y[i] = a[i] y[i-1] + b[i], both ways; and of a single row."""

    def both(first: Any, second: Any) -> Any:
        return first[0] * second[0], second[0] * first[1] + second[1]

    rows = x * ROWS[:4]
    return [
        lib.lax.associative_scan(both, (rows, lib.np.sin(rows))),
        lib.lax.associative_scan(lambda a, b: a * b, rows, reverse=True, axis=1),
        lib.lax.associative_scan(lambda a, b: a * b, rows[:1]),
    ]


def test_prefixes() -> None:
    alike(lambda lib: lambda x: _prefixes(lib, x), X, ("value", "grad", "vmap of grad"))


@pytest.mark.parametrize("f", [_rnn, _nested, _no_rows, _fixed, _swapped, _prefixes])
def test_written_down_as_jax_does(f: Any) -> None:
    def plain(lib: Any) -> Any:
        return lambda x: f(lib, x)

    for of, arg in ((plain, X), (lambda lib: lib.vmap(plain(lib)), W)):
        ours, theirs = names(CORE, of(CORE), arg), names(JAX, of(JAX), arg)
        assert ours == [name for name in theirs if name not in ("jit", "pjit") or name in ours]


def test_gradient_written_down_as_jax_does() -> None:
    def f(lib: Any) -> Any:
        def loss(w: Any, h: Any) -> Any:
            return lib.lax.scan(lambda h, x: (lib.np.sin(w * h + x), h * h), h, ROWS)[1].sum()

        return lib.grad(loss, (0, 1))

    ours, theirs = (lib.make_jaxpr(f(lib))(X, X).jaxpr for lib in (CORE, JAX))
    assert names(CORE, f(CORE), X, X) == names(JAX, f(JAX), X, X)
    scans = [[e for e in jaxpr.eqns if e.primitive.name == "scan"] for jaxpr in (ours, theirs)]
    for mine, other in zip(*scans, strict=True):
        assert len(mine.invars) == len(other.invars)
        assert mine.params["reverse"] == other.params["reverse"]


def test_printed_as_jax_does() -> None:
    text = str(core.make_jaxpr(lambda x: _no_rows(CORE, x))(X))
    assert "scan[" in text
    assert "length=3\n" in text
    assert "num_carry=1\n      num_consts=1\n      reverse=False\n      unroll=1\n" in text


def test_linear_in_everything() -> None:
    """Nothing of the first half is needed: the derivative is one scan, and so is its transpose."""

    def f(lib: Any) -> Any:
        return lambda x: lib.lax.scan(lambda c, y: (c + y * ROWS[0], c), x, ROWS * x)

    same(*(lib.linearize(f(lib), X)[1](X) for lib in (CORE, JAX)))
    pushed = core.make_jaxpr(lambda t: core.linearize(f(CORE), X)[1](t))(X)
    assert [e.primitive.name for e in pushed.eqns].count("scan") == 2
    same(*(lib.grad(lambda x, lib=lib: f(lib)(x)[0].sum())(X) for lib in (CORE, JAX)))


def test_memory_of_a_gradient() -> None:
    """What does not change over the loop is kept once: the matrix, and what is made of it alone."""
    n, steps = 64, 50
    w, h, xs = np.ones((n, n), np.float32), np.ones(n, np.float32), np.ones((steps, n), np.float32)

    def loss(lib: Any) -> Any:
        def step(w: Any, h: Any, x: Any) -> Any:
            h = lib.np.sin(lib.np.cos(w) @ h + x)
            return h, h

        return lib.grad(lambda w, h, xs: lib.lax.scan(lambda h, x: step(w, h, x), h, xs)[1].sum())

    ours = core.jit(loss(CORE)).lower(w, h, xs).compile().memory_analysis()
    theirs = jax.jit(loss(JAX)).lower(w, h, xs).compile().memory_analysis()
    assert ours.temp_size_in_bytes <= 1.1 * theirs.temp_size_in_bytes
    forward = next(
        e for e in core.make_jaxpr(loss(CORE))(w, h, xs).eqns if e.primitive.name == "scan"
    )
    assert all(v.aval.shape in ((n,), (steps, n)) for v in forward.outvars)


def test_compiled_once() -> None:
    def body(c: Any, x: Any) -> Any:
        return c * x, c + x

    def turn(i: Any, c: Any) -> Any:
        return c * i

    def run() -> None:
        core.grad(lambda x: CORE.lax.scan(body, x, ROWS)[1].sum())(X)
        core.vmap(lambda x: CORE.lax.scan(body, x, ROWS))(ROWS)
        CORE.lax.fori_loop(0, 3, turn, X)
        CORE.lax.map(CORE.np.sin, X)

    compiled_before(run)


WRONG = {
    "no pair": (TypeError, lambda m: m.lax.scan(lambda c, x: c, X, ROWS)),
    "carry tree": (TypeError, lambda m: m.lax.scan(lambda c, x: ((c, c), x), X, ROWS)),
    "carry dtype": (
        TypeError,
        lambda m: m.lax.scan(lambda c, x: ({"a": c["a"] > 0}, x), {"a": X}, ROWS),
    ),
    "carry shape": (TypeError, lambda m: m.lax.scan(lambda c, x: (c + x, x), 0.0, ROWS)),
    "lengths": (ValueError, lambda m: m.lax.scan(lambda c, x: (c, x), X, {"a": ROWS, "b": X})),
    "length": (ValueError, lambda m: m.lax.scan(lambda c, x: (c, x), X, ROWS, length=4)),
    "no length": (ValueError, lambda m: m.lax.scan(lambda c, x: (c, x), X)),
    "scalar": (ValueError, lambda m: m.lax.scan(lambda c, x: (c, x), X, 3.0)),
    "unroll": (ValueError, lambda m: m.lax.scan(lambda c, x: (c, x), X, ROWS, unroll=-1)),
    "fold tree": (Exception, lambda m: m.lax.associative_scan(lambda a, b: (a, b), ROWS)),
}


def test_wrong_use() -> None:
    approved("core_scan_refused", "\n".join(f"{name}: {refused(*WRONG[name])}" for name in WRONG))


def test_weak_types() -> None:
    def f(lib: Any) -> Any:
        return lambda x: lib.lax.scan(lambda c, v: (c + v, c), 0, x)

    as_weak(f, X)
