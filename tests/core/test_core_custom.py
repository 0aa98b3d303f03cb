"""Derivatives by the user's rules, and checkpoint, against JAX."""

from typing import Any

import jax
import numpy as np
import pytest

from jaxlens import core
from tests.support.core.alike import CORE, EVERY, JAX, MOST, alike, compiled_before, names, same

pytestmark = pytest.mark.backend
X = np.array([0.3, -0.4, 1.2], np.float32)
ROWS = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def _by_jvp(lib: Any) -> Any:
    """A wrong derivative on purpose: what comes out shows which rule was used."""

    @lib.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return lib.np.sin(x) * y

    @f.defjvp
    def f_jvp(primals: Any, tangents: Any) -> Any:
        (x, y), (dx, dy) = primals, tangents
        return f(x, y), 3 * dx * x * y + dy * lib.np.cos(x)

    return lambda x: f(x, x * 2) * x


def _by_vjp(lib: Any) -> Any:
    def plain(p: Any, n: Any) -> Any:
        return {"out": lib.np.sin(p["x"]) * p["y"], "count": n + 1}

    def fwd(p: Any, n: Any) -> Any:
        return plain(p, n), (p, lib.np.cos(p["x"]))

    def bwd(residuals: Any, ct: Any) -> Any:
        p, slope = residuals
        return {"x": ct["out"] * slope * p["y"] * 2, "y": None}, None

    f = lib.custom_vjp(plain)
    f.defvjp(fwd, bwd)
    return lambda x: f({"x": x * x, "y": x}, 3)["out"]


def _in_loops(lib: Any) -> Any:
    """Rules inside scan, cond and jit; a rule with a scan inside."""
    inner = _by_jvp(lib)

    def plain(c: Any, x: Any) -> Any:
        return lib.lax.scan(lambda c, _: (lib.np.sin(c) * x, None), c, None, length=2)[0]

    f = lib.custom_vjp(plain)
    f.defvjp(lambda c, x: (plain(c, x), x), lambda x, ct: (ct * x, ct * lib.np.sin(x)))

    def step(c: Any, x: Any) -> Any:
        c = lib.lax.cond(c.sum() > 0, inner, lambda v: f(v, x), c)
        return lib.jit(f)(c, x), c

    return lambda x: lib.lax.scan(step, x, ROWS)


CUSTOM = {f.__name__: f for f in (_by_jvp, _by_vjp, _in_loops)}


@pytest.mark.parametrize("name", CUSTOM)
def test_rules(name: str) -> None:
    backward = ("value", "grad", "grad of grad", "vmap of grad", "grad of vmap", "jvp of grad")
    alike(CUSTOM[name], X, EVERY if name == "_by_jvp" else backward)


def test_rule_is_kept_at_every_order() -> None:
    """Also inside a scan, where JAX uses the function's own derivative for the second."""

    def turn(c: Any, x: Any) -> Any:
        return _by_jvp(CORE)(c) * 0.5 + x

    def loop(x: Any) -> Any:
        return CORE.lax.fori_loop(0, 2, lambda i, c: turn(c, x), x)

    def second(f: Any) -> Any:
        return core.jit(core.grad(lambda x: CORE.np.cos(core.grad(lambda v: f(v).sum())(x)).sum()))

    x = X * 0.3
    same(second(loop)(x), second(lambda x: turn(turn(x, x), x))(x))


def _chain(lib: Any, **options: Any) -> Any:
    f = lib.checkpoint(lambda x, y: (lib.np.sin(lib.np.sin(x) * y), y * 2, 1), **options)
    return lambda x: f(lib.np.cos(x), x)[:2]


def _of_scan(lib: Any) -> Any:
    def f(x: Any) -> Any:
        return lib.lax.scan(lambda c, row: (lib.np.sin(c * row), lib.np.cos(c)), x, ROWS)

    return lib.checkpoint(f)


def _in_scan(lib: Any) -> Any:
    f = lib.checkpoint(lambda c, row: (lib.np.sin(lib.np.sin(c) * row), c), prevent_cse=False)
    return lambda x: lib.lax.scan(f, x, ROWS)


@pytest.mark.parametrize("make", [_chain, _of_scan, _in_scan])
def test_checkpoint(make: Any) -> None:
    alike(make, X, EVERY if make is _chain else MOST)


@pytest.mark.parametrize("make", [_by_jvp, _by_vjp, _chain, _in_scan])
def test_written_down_as_jax_does(make: Any) -> None:
    def gradient(lib: Any) -> Any:
        return lib.grad(lambda x: sum(leaf.sum() for leaf in jax.tree.leaves(make(lib)(x))))

    for of in (make, gradient):
        ours, theirs = names(CORE, of(CORE), X), names(JAX, of(JAX), X)
        if make is not _chain or of is not gradient:  # there JAX also writes what no result needs
            assert ours == theirs
        assert set(ours) <= set(theirs)


def test_checkpoint_keeps_its_arguments_only() -> None:
    def make(lib: Any, wrap: Any) -> Any:
        def layer(x: Any) -> Any:
            for _ in range(4):
                x = lib.np.sin(x)
            return x

        return lib.grad(
            lambda x: lib.lax.scan(lambda c, _: (wrap(layer)(c), None), x, None, 8)[0].sum()
        )

    def kept(lib: Any, wrap: Any) -> int:
        scans = [e for e in lib.make_jaxpr(make(lib, wrap))(X).eqns if e.primitive.name == "scan"]
        return sum(var.aval.shape == (8, 3) for var in scans[0].outvars)

    assert kept(CORE, lambda f: f) == kept(JAX, lambda f: f) == 4
    assert kept(CORE, CORE.checkpoint) == kept(JAX, JAX.checkpoint) == 1
    text = core.jit(make(CORE, CORE.checkpoint)).lower(X).as_text()
    assert "optimization_barrier" in text


@pytest.mark.parametrize("lib", [CORE, JAX], ids=["core", "jax"])
def test_keywords_and_defaults(lib: Any) -> None:
    @lib.custom_jvp
    def f(x: Any, y: Any = 2.0) -> Any:
        return lib.np.multiply(x, y)

    f.defjvp(lambda p, t: (p[0] * p[1], t[0] * 10))
    assert f.__name__ == "f"
    same(f(X, y=3.0), X * 3)
    same(lib.grad(lambda x: f(x).sum())(X), np.full(3, 10, np.float32))


def test_closing_over_traced_values() -> None:
    """What another transform traces is a constant to the rule; by it one cannot differentiate."""

    def make(lib: Any, y: Any) -> Any:
        @lib.custom_jvp
        def f(x: Any) -> Any:
            return x * y

        f.defjvp(lambda p, t: (p[0] * y, t[0] * y * 2))
        return f

    results = [
        lib.jit(lambda x, y, lib=lib: lib.grad(lambda v: make(lib, y)(v).sum())(x))(X, X + 1)
        for lib in (CORE, JAX)
    ]
    same(*results)
    with pytest.raises(TypeError, match="make that value an argument"):
        core.grad(lambda y: make(CORE, y)(X).sum())(X)


def _broken(lib: Any, kind: str) -> Any:
    jvps = {
        "no pair": lambda p, t: p[0],
        "tree": lambda p, t: (p[0], (t[0],)),
        "shape": lambda p, t: (p[0], t[0][:2]),
    }
    fwds = {"fwd no pair": lambda x: x, "fwd tree": lambda x: ((x,), None)}
    bwds = {
        "bwd no tuple": lambda r, ct: ct,
        "bwd count": lambda r, ct: (ct, ct),
        "bwd tree": lambda r, ct: ({"a": ct},),
        "bwd shape": lambda r, ct: (ct[:2],),
    }
    if kind in ("no rule", *jvps):
        f = lib.custom_jvp(lambda x: x * 2)
        if kind != "no rule":
            f.defjvp(jvps[kind])
    else:
        f = lib.custom_vjp(lambda x: x * 2)
        if kind != "no vjp rule":
            f.defvjp(fwds.get(kind, lambda x: (x * 2, None)), bwds.get(kind, lambda r, ct: (ct,)))
    return f


WRONG = {
    "no rule": (AttributeError, "defjvp"),
    "no vjp rule": (AttributeError, "defvjp"),
    "no pair": (TypeError, "pair"),
    "tree": (TypeError, "containers"),
    "shape": (TypeError, "must be f32[3], got f32[2]"),
    "fwd no pair": (TypeError, "pair"),
    "fwd tree": (TypeError, "containers"),
    "bwd no tuple": (TypeError, "tuple"),
    "bwd count": (TypeError, "tuple"),
    "bwd tree": (TypeError, "containers"),
    "bwd shape": (ValueError, "expected f32[3], got f32[2]"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_rules(kind: str) -> None:
    expected, words = WRONG[kind]
    with pytest.raises(expected if kind != "fwd tree" else AttributeError):
        JAX.grad(lambda x: _broken(JAX, kind)(x).sum())(X)  # takes any containers from fwd
    with pytest.raises(expected) as caught:
        CORE.grad(lambda x: _broken(CORE, kind)(x).sum())(X)
    assert words in str(caught.value)


def test_forward_mode_of_custom_vjp() -> None:
    for lib in (JAX, CORE):
        with pytest.raises(TypeError, match="forward-mode"):
            lib.jvp(_by_vjp(lib), (X,), (X,))


def test_compiled_once() -> None:
    f, g, h = _by_jvp(CORE), _by_vjp(CORE), CORE.checkpoint(CORE.np.sin)

    def run() -> None:
        for each in (f, g, h):
            core.grad(lambda x, each=each: each(x).sum())(X)
            core.vmap(each)(ROWS)

    compiled_before(run)
