"""Functions that Equinox and Flax jit: recompiles under the names that the user wrote."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from tests.support.jax_events import Compiles

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]

X = np.ones((128, 784), np.float32)


def test_functions_that_equinox_made_are_told_apart():
    eqx = pytest.importorskip("equinox")
    net = eqx.nn.Linear(4, 2, key=jax.random.key(0))

    @eqx.filter_jit
    def step(net, x, flag):
        return jax.vmap(net)(x).sum() * (2 if flag else 1)

    other = eqx.filter_jit(lambda x: x * 2)
    with jaxlens.recompiles() as log:
        for n in (3, 5):
            step(net, np.ones((n, 4), np.float32), True)
        step(net, np.ones((5, 4), np.float32), False)
        other(X)
    calls = list(log.log.compiles)
    assert [call.function for call in calls] == ["step", "step", "step", "<lambda>"]
    assert calls[1].reason == "x: f32[5,4], was f32[3,4]"
    assert calls[2].reason == "flag: static value False, was True"
    assert calls[3].reason == "never called before"
    assert calls[0].defined.line == inspect.getsourcelines(step.__wrapped__)[1]


def test_the_parts_of_equinox_modules_have_the_users_names():
    eqx = pytest.importorskip("equinox")

    class Scale(eqx.Module):
        w: jax.Array
        n: int = eqx.field(static=True)

        @eqx.filter_jit
        def __call__(self, x, *, rate=0.1):
            return x @ self.w * self.n * rate

    w = np.ones((784, 2), np.float32)
    with Compiles() as truth, jaxlens.recompiles() as log:
        Scale(jnp.asarray(w), 1)(X)
        Scale(jnp.asarray(w), 2)(X)
        Scale(jnp.asarray(w[:, :1]), 2)(X)
        Scale(jnp.asarray(w[:, :1]), 2)(X, rate=0.2)
    assert truth.names.count("jit(__call__)") == log.compiles == 4
    assert [call.reason for call in log.log.compiles] == [
        "never called before",
        "self.n: kept in the pytree 2, was 1",
        "self.w: f32[784,1], was f32[784,2]",
        "rate: static value 0.2, was not given (so 0.1)",
    ]
    assert "pass rate as data: as a jax.Array (traced so: it works" in str(log).replace("\n  ", " ")


def test_two_functions_of_one_name_that_equinox_jitted_in_a_loop():
    eqx = pytest.importorskip("equinox")
    with jaxlens.recompiles() as log:
        for rate in (2.0, 3.0):
            eqx.filter_jit(lambda x, rate=rate: x * rate)(X)
    (again,) = log.log.recompiles
    assert again.main.kind == "function"
    assert "rate, which it closes over: 3.0, was 2.0" in again.reason


def test_functions_that_flax_made():
    nnx = pytest.importorskip("flax.nnx")
    model = nnx.Linear(4, 2, rngs=nnx.Rngs(0))

    @nnx.jit
    def step(model, x):
        return model(x).sum()

    with jaxlens.recompiles() as log:
        for n in (3, 3, 2):
            step(model, np.ones((n, 4), np.float32))
    assert [c.reason for c in log.log.compiles] == [
        "never called before",
        "x: f32[2,4], was f32[3,4]",
    ]
    assert log.findings[0].text == (
        "step compiled 2 times, once because x's first axis changed: 3, 2."
    )
    with jaxlens.recompiles() as log:
        step(nnx.Linear(4, 5, rngs=nnx.Rngs(0)), np.ones((2, 4), np.float32))
    (again,) = log.log.recompiles
    assert again.reason.split("; ") == [
        "model.bias: f32[5], was f32[2]",
        "model.kernel: f32[4,5], was f32[4,2]",
        "model.out_features: kept in the pytree 5, was 2",
    ]


def test_the_arrays_of_flax_models_have_the_users_names():
    nnx = pytest.importorskip("flax.nnx")

    class Net(nnx.Module):
        def __init__(self):
            keys = nnx.Rngs(0)
            self.layers = nnx.List([nnx.Linear(4, 3, rngs=keys), nnx.Linear(3, 2, rngs=keys)])
            self.shared = self.layers[0]
            self.table = nnx.Param(jnp.ones(7))

    step = nnx.jit(lambda both, x: both["net"].layers[0](x))
    with jaxlens.recompiles() as log:
        step({"net": Net()}, np.ones((3, 4), np.float32))
    named = {part.name: part.text for part in log.log.compiles[0].parts if part.kind == "input"}
    net = "both['net']"
    assert named["x"] == "f32[3,4]"
    assert named[f"{net}.layers[1].kernel"] == "f32[3,2]"
    assert named[f"{net}.table"] == "f32[7]"
    assert len(named) == 6


@pytest.mark.models
def test_an_optimiser_that_starts_with_other_types():
    optax = pytest.importorskip("optax")
    rule = optax.scale_by_schedule(lambda count: 0.1 * count)

    @jax.jit
    def update(params, state):
        return rule.update(params, state)

    with jaxlens.recompiles() as log:
        params = {"w": jnp.ones(3)}
        state = rule.init(params)
        for _ in range(3):
            _, state = update(params, state)
    assert log.compiles == 1
