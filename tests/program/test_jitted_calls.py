"""What is said of a call that is not jitted is what JAX is heard to do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens

pytestmark = pytest.mark.backend

X = np.ones((4, 8), np.float32)


def _custom(f):
    custom = jax.custom_jvp(lambda x: f(x))
    custom.defjvp(lambda xs, ts: (f(xs[0]), ts[0]))
    return custom


OWN, BESIDE = "its work is {}", "it runs {}, and the rest op by op"
ONE, TWO, THREE = "1 jitted call", "2 jitted calls", "3 jitted calls"
CASES = {
    "vmap": (lambda f, _: jax.vmap(f), OWN, ONE),
    "vmap of JAX's": (lambda *_: jax.vmap(jax.jit(jnp.subtract)), OWN, ONE),
    "lambda": (lambda f, _: lambda x: f(x), OWN, ONE),
    "checkpoint": (lambda f, _: jax.checkpoint(f), OWN, ONE),
    "custom_jvp": (lambda f, _: _custom(f), OWN, ONE),
    "value_and_grad": (lambda _, g: jax.value_and_grad(g), OWN, TWO),
    "vmap of grad": (lambda _, g: jax.vmap(jax.grad(g)), OWN, TWO),
    "grad of checkpoint": (lambda _, g: jax.grad(jax.checkpoint(g)), OWN, THREE),
    "one after another": (lambda f, g: lambda x: g(f(x)), OWN, TWO),
    "beside an operation": (lambda f, _: lambda x: f(x) + 1, BESIDE, ONE),
    "beside JAX's": (lambda f, _: lambda x: jnp.where(x > 0, f(x), x), BESIDE, ONE),
    "JAX's alone": (lambda *_: lambda x: jnp.where(x > 0, x, 0), "it runs op by op", ""),
    "in a loop": (
        lambda f, _: lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, None, 3)[0],
        "it runs op by op",
        "",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_not_jitted_runs_as_said(name):
    def doubled(x):
        return jnp.sin(x) * 2

    def total(x):
        return jnp.sin(x).sum()

    make, said, calls = CASES[name]
    f = make(jax.jit(doubled), jax.jit(total))
    args = (X, X) if name == "vmap of JAX's" else (X,)
    line = " ".join(str(jaxlens.jaxpr(f, *args)).partition("\n\n")[0].split())
    assert line.endswith(f"jitted for this look (as written, {said.format(calls)})")
    with jaxlens.recompiles() as log:
        f(*args)
    heard = [
        c.function
        for c in log.log.calls
        if c.compiled and c.function in ("doubled", "total", "subtract")
    ]
    assert len(heard) == int((calls or "0").split()[0]), [c.name for c in log.log.calls]


def test_without_a_jaxpr_it_is_said_what_is_not_held(tmp_path):
    jaxlens.capture(lambda x: x * 2, X).save(tmp_path / "cap", stages=["hlo"])
    line = str(jaxlens.hlo(jaxlens.load(tmp_path / "cap"))).partition("\n\n")[0]
    why = "how it runs is not known without its jaxpr, which is not held"
    assert " ".join(line.split()).endswith(f"jitted for this look (as written, {why})")
