"""Branches and unbounded loops against JAX: values, derivatives, batches, jaxprs, errors."""

from typing import Any

import jax
import numpy as np
import pytest

from jaxlens import core
from jaxlens.core.parallel.collectives import psum
from tests.support.core.alike import (
    CORE,
    EVERY,
    FORWARD,
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


def _by_sum(lib: Any, x: Any) -> Any:
    """Branches with other residuals, one constant, and a result that is no float."""
    return lib.lax.cond(
        x.sum() > 0,
        lambda v: (lib.np.sin(v) * lib.np.cos(v), v.sum(), 1),
        lambda v: (lib.np.ones_like(v), lib.np.exp(v.sum()), 2),
        x,
    )


def _captured(lib: Any, x: Any) -> Any:
    y = x * 2
    return lib.lax.cond(x[0] > 0, lambda: lib.np.sin(y) * x, lambda: y * y)


def _switched(lib: Any, x: Any) -> Any:
    branches = [lib.np.sin, lambda v: v * v, lambda v: v]
    index = (x.sum() * 2).astype(np.int32)
    return lib.lax.switch(index, branches, x)


def _nested(lib: Any, x: Any) -> Any:
    def inner(v: Any) -> Any:
        return lib.lax.cond(v.sum() > 0.1, lib.np.exp, lambda u: u * x, v)

    return lib.lax.cond(x[0] > 0, inner, lambda v: lib.jit(lib.np.sin)(v), x)


def _guarded(lib: Any, x: Any) -> Any:
    """The branch not taken has an infinite derivative."""
    return lib.vmap(lambda v: lib.lax.cond(v > 0, lib.np.sqrt, lambda u: u * 0, v))(x)


def _pushed(lib: Any, x: Any) -> Any:
    """Each example pushes its tangent through its own branch, and all that is pulled back."""

    def push(v: Any, t: Any) -> Any:
        return lib.jvp(lambda u: lib.lax.cond(u > 0, lib.np.sin, lib.np.exp, u), (v,), (t,))[1]

    return lib.vmap(push)(x, x * x)


@pytest.mark.parametrize("f", [_pushed, _by_sum, _captured, _switched, _nested, _guarded])
def test_branches(f: Any) -> None:
    alike(lambda lib: lambda x: f(lib, x), X, EVERY if f is _by_sum else MOST)


def test_branches_by_concrete_predicates() -> None:
    for pred in (True, False, 3, 0.0, np.float32(2), np.bool_(False)):
        for lib in (CORE, JAX):
            found = lib.lax.cond(pred, lambda v: v + 1, lambda v: v - 1, X)
            same(found, X + 1 if pred else X - 1)
    for index in (-1, 0, 1, 7):
        found, expected = (
            lib.lax.switch(index, [lib.np.sin, lib.np.cos, lib.np.tan], X) for lib in (CORE, JAX)
        )
        same(found, expected)


def test_only_the_chosen_branch_runs() -> None:
    def slow(v: Any) -> Any:
        return CORE.lax.while_loop(lambda c: c[0] < 100_000, lambda c: (c[0] + 1, c[1]), (0, v))[1]

    text = core.jit(lambda p, v: CORE.lax.cond(p, slow, lambda u: u, v)).lower(True, X).as_text()
    assert text.count("stablehlo.case") == 1


def _power(lib: Any, x: Any) -> Any:
    """Turns that depend on the number."""
    return lib.lax.while_loop(
        lambda c: c[1].sum() < 9, lambda c: (c[0] + 1, c[1] * 1.5 + x), (0, x * x)
    )


def _newton(lib: Any, x: Any) -> Any:
    def better(c: Any) -> Any:
        i, r = c
        return i + 1, 0.5 * (r + (x * x + 1) / r)

    return lib.lax.while_loop(lambda c: c[0] < 4, better, (0, lib.np.ones_like(x)))


def _inner_loop(lib: Any, x: Any) -> Any:
    def body(c: Any) -> Any:
        return lib.lax.while_loop(lambda v: v < 1.0, lambda v: v * 2 + 0.1, c) - 0.5 + x.sum() * 0

    return lib.lax.while_loop(lambda c: c < 0.3, body, x[0] * 0.3)


def _dynamic_for(lib: Any, x: Any) -> Any:
    stop = (lib.np.abs(x).sum() * 3).astype(np.int32)
    return lib.lax.fori_loop(0, stop, lambda i, c: c * x + i, x)


@pytest.mark.parametrize("f", [_power, _newton, _inner_loop, _dynamic_for])
def test_loops(f: Any) -> None:
    alike(lambda lib: lambda x: f(lib, x), X, FORWARD)


def test_batched_twice() -> None:
    """The condition differs along one axis, the carry along both."""

    def f(lib: Any) -> Any:
        def count(x: Any, n: Any) -> Any:
            return lib.lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2), (0, x))[1]

        return lib.vmap(lib.vmap(count, (None, 0)), (0, None))

    args = X, np.arange(4, dtype=np.int32)
    same(core.jit(f(CORE))(*args), f(JAX)(*args))


COLLECTIVE = {
    "jit": lambda m, psum: lambda x: m.jit(lambda v: psum(m.np.sin(v)))(x),
    "scan": lambda m, psum: lambda x: m.lax.scan(lambda c, y: (c + psum(y), c * y), x[0], x),
    "scan of equal rows": lambda m, psum: (
        lambda x: m.lax.scan(lambda c, y: (c + psum(y), psum(1)), 0.0, X)
    ),
    "cond": lambda m, psum: lambda x: m.lax.cond(True, psum, lambda v: v * 2, x),
    "while": lambda m, psum: (
        lambda x: m.lax.while_loop(lambda c: psum(c.sum()) < 100, lambda c: c * 2, x)
    ),
    "grad of checkpoint": lambda m, psum: m.grad(
        lambda x: m.checkpoint(lambda v: psum(m.np.sin(v)).sum())(x)
    ),
}


@pytest.mark.parametrize("name", COLLECTIVE)
def test_collectives_inside(name: str) -> None:
    """The examples of a vmap reach one another from inside of what holds jaxprs."""
    rows = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    ours = COLLECTIVE[name](CORE, lambda v: psum(v, "i"))
    theirs = COLLECTIVE[name](JAX, lambda v: jax.lax.psum(v, "i"))
    same(core.vmap(ours, axis_name="i")(rows), jax.vmap(theirs, axis_name="i")(rows), name)


def test_linearize_keeps_the_loop() -> None:
    """The value needs no tangent, so it is computed at once."""
    results = []
    for lib in (CORE, JAX):
        value, push = lib.linearize(lambda x, lib=lib: _newton(lib, x)[1], X)
        results.append((value, push(X)))
    same(*results)


@pytest.mark.parametrize(
    "f",
    [
        lambda lib: lambda x: _by_sum(lib, x),
        lambda lib: lambda x: _captured(lib, x),
        lambda lib: lambda x: _switched(lib, x),
        lambda lib: lambda x: _newton(lib, x),
        lambda lib: lambda x: lib.jvp(lambda v: _newton(lib, v), (x,), (x,)),
        lambda lib: lambda x: _dynamic_for(lib, x),
        lambda lib: lib.vmap(lambda x: lib.lax.cond(x > 0, lib.np.sin, lib.np.cos, x)),
        lambda lib: lib.grad(lambda x: lib.lax.cond(x[0] > 0, lib.np.sin, lib.np.cos, x).sum()),
    ],
)
def test_written_down_as_jax_does(f: Any) -> None:
    ours, theirs = names(CORE, f(CORE), X), names(JAX, f(JAX), X)
    later = {"jit", "pjit", "empty2", "stop_gradient"}
    ours, theirs = ([n for n in each if n not in later] for each in (ours, theirs))
    if "cond" in theirs and theirs.count("cond") > 1:  # JAX leaves equations that nothing needs
        ours, theirs = ([n for n in each if n != "broadcast_in_dim"] for each in (ours, theirs))
    assert ours == theirs


def test_printed_as_jax_does() -> None:
    def text(lib: Any, f: Any) -> str:
        return str(lib.make_jaxpr(f)(X))

    found = text(CORE, lambda x: CORE.lax.while_loop(lambda c: c.sum() < 1, lambda c: c + x, x))
    assert all(part in found for part in ("while[", "body_nconsts=1", "cond_nconsts=0"))
    found = text(CORE, lambda x: CORE.lax.cond(x[0] > 0, lambda v: v * 2, lambda v: v, x))
    assert all(part in found for part in ("cond[", "branches=(", "{ lambda ; "))


WRONG = {
    "predicate": (TypeError, lambda m: m.lax.cond(X, m.np.sin, m.np.sin, X)),
    "branch types": (TypeError, lambda m: m.lax.cond(True, lambda: X, lambda: X[0])),
    "branch dtypes": (
        TypeError,
        lambda m: m.lax.cond(True, lambda: {"a": X}, lambda: {"a": X > 0}),
    ),
    "branch trees": (TypeError, lambda m: m.lax.cond(True, lambda: (X, X), lambda: X)),
    "index": (TypeError, lambda m: m.lax.switch(1.0, [m.np.sin, m.np.cos], X)),
    "no branches": (ValueError, lambda m: m.lax.switch(1, [], X)),
    "condition": (TypeError, lambda m: m.lax.while_loop(lambda c: c, lambda c: c, X)),
    "carry tree": (TypeError, lambda m: m.lax.while_loop(lambda c: True, lambda c: (c,), X)),
    "carry type": (
        TypeError,
        lambda m: m.lax.while_loop(
            lambda c: True, lambda c: {"a": c["a"], "b": c["b"][:2]}, {"a": X, "b": X}
        ),
    ),
    "bounds": (TypeError, lambda m: m.lax.fori_loop(0.0, 3, lambda i, c: c, X)),
    "reverse": (ValueError, lambda m: m.grad(lambda x: _power(m, x)[1].sum())(X)),
}


def test_wrong_use() -> None:
    approved(
        "core_control_refused", "\n".join(f"{name}: {refused(*WRONG[name])}" for name in WRONG)
    )


def test_weak_types() -> None:
    """A Python number that is carried takes the dtype of what the body makes of it."""

    def f(lib: Any) -> Any:
        return lambda x: (
            lib.lax.while_loop(lambda c: c < 2, lambda c: c + x[0], 0),
            lib.lax.cond(x[0] > 0, lambda: 1.0, lambda: x[0]),
        )

    as_weak(f, X)


def test_compiled_once() -> None:
    """Without jit, too: a loop and its derivative are one program each, however often they run."""

    def body(c: Any) -> Any:
        return c[0] + 1, c[1] * 1.5

    def test(c: Any) -> Any:
        return c[0] < 3

    def up(v: Any) -> Any:
        return v * 2

    def down(v: Any) -> Any:
        return v / 2

    def run() -> None:
        CORE.lax.while_loop(test, body, (0, X))
        core.jvp(lambda x: CORE.lax.while_loop(test, body, (0, x)), (X,), (X,))
        core.grad(lambda x: CORE.lax.cond(x[0] > 0, up, down, x).sum())(X)
        core.vmap(lambda x: CORE.lax.cond(True, up, down, x))(np.stack([X, X]))

    compiled_before(run)


def test_in_sixty_four_bits() -> None:
    wide = X.astype(np.float64)
    with jax.enable_x64(True), core.enable_x64():
        for f in (_newton, _dynamic_for):
            same(f(CORE, core.array(wide)), f(JAX, jax.numpy.array(wide)))
