"""The cache verdict before a call, compared with what JAX then does."""

import functools
import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlens.ir.facts import Verdict
from jaxlens.stages.driver import capture

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]

X = np.ones((128, 784), np.float32)


class Counted:
    """A jitted function with a count of its traces and compiles."""

    def __init__(self, **settings):
        self.traces = 0

        @functools.partial(jax.jit, **settings)
        def f(params, x, n=1):
            self.traces += 1
            return jax.tree.map(lambda p: (x * n).sum() + p, params)

        self.f = f


def ask(f, *args, **kwargs):
    return capture(f, args, kwargs).verdict


def compiles(caplog, call):
    """Whether a call compiles, as JAX's own log says."""
    with jax.log_compiles(), caplog.at_level("WARNING"):
        caplog.clear()
        call()
        return any("XLA compilation of jit(f)" in r.getMessage() for r in caplog.records)


@pytest.fixture
def called():
    counted = Counted(static_argnames="n")
    counted.f({"w": 1.0}, X, n=3)
    counted.traces = 0
    return counted


def test_a_function_that_was_never_called():
    f = Counted().f
    assert ask(f, {"w": 1.0}, X) == Verdict(False, "trace", ("never called before",), 0)


def test_a_hit(called):
    assert ask(called.f, {"w": 1.0}, X, n=3) == Verdict(True, earlier=1)
    called.f({"w": 1.0}, X, n=3)
    assert called.traces == 0


@pytest.mark.parametrize(
    ("args", "n", "reasons"),
    [
        (({"w": 1.0}, X[:64]), 3, ("x: f32[64,784], was f32[128,784]",)),
        (({"w": 1.0}, X.astype(np.float16)), 3, ("x: f16[128,784], was f32[128,784]",)),
        (({"w": 1.0}, X), 4, ("n: static value 4, was 3",)),
        (({"w": np.float32(1)}, X), 3, ("params['w']: f32[], was weak f32[]",)),
        (({"w": 1.0, "b": 2.0}, X), 3, ("params['b']: new",)),
        (({"v": 1.0}, X), 3, ("params['v']: new", "params['w']: gone")),
        (
            ({"w": 1}, X[:1]),
            5,
            (
                "n: static value 5, was 3",
                "params['w']: weak i32[], was weak f32[]",
                "x: f32[1,784], was f32[128,784]",
            ),
        ),
    ],
)
def test_what_is_new_in_the_key(called, args, n, reasons):
    verdict = ask(called.f, *args, n=n)
    assert verdict == Verdict(False, "trace", reasons, 1)
    called.f(*args, n=n)
    assert called.traces == 1
    assert ask(called.f, *args, n=n).hit is True


def test_the_nearest_earlier_key_is_named(called):
    called.f({"w": 1.0}, X[:64], n=8)
    verdict = ask(called.f, {"w": 1.0}, X[:32], n=8)
    assert verdict == Verdict(False, "trace", ("x: f32[32,784], was f32[64,784]",), 2)


def test_the_same_leaves_in_another_structure():
    f = jax.jit(lambda pair: pair[0] + pair[1])
    f((1.0, 2.0))
    (reason,) = ask(f, [1.0, 2.0]).reasons
    assert reason.startswith("pair: pytree PyTreeDef([*, *]), was PyTreeDef((*, *))")


def test_a_setting_that_changed(called):
    with jax.default_matmul_precision("float32"):
        verdict = ask(called.f, {"w": 1.0}, X, n=3)
    assert verdict.reasons == ("jax_default_matmul_precision: 'float32', was None",)


def test_committing_an_array_compiles_without_a_trace(caplog):
    counted = Counted()
    counted.f({"w": 1.0}, jnp.asarray(X))
    here = jax.device_put(X, jax.devices()[0])
    verdict = ask(counted.f, {"w": 1.0}, here)
    assert verdict == Verdict(
        False,
        "compile",
        (
            f"x: committed to {here.device}, was not committed to a device".replace(
                str(here.device), f"{here.device.platform}:{here.device.id}"
            ),
        ),
        1,
    )
    counted.traces = 0
    assert compiles(caplog, lambda: counted.f({"w": 1.0}, here))
    assert counted.traces == 0
    assert ask(counted.f, {"w": 1.0}, here).hit is True


def test_numpy_or_jax_array_is_the_same_program(called):
    assert ask(called.f, {"w": 1.0}, jnp.asarray(X), n=3).hit is True


def test_a_new_jit_of_the_same_function_hits(caplog):
    def f(x):
        return x + 1

    jax.jit(f)(X)
    assert ask(jax.jit(f), X).hit is True
    assert not compiles(caplog, lambda: jax.jit(f)(X))
    verdict = ask(jax.jit(f, donate_argnums=0), X)
    assert verdict.hit is False
    assert verdict.reasons == ("x: donated, was not donated",)


def test_traced_or_lowered_is_not_compiled(caplog):
    f = jax.jit(lambda x: x * 2)
    f.trace(X)
    assert ask(f, X) == Verdict(False, "compile", ("traced before, never compiled",), 1)
    f.lower(X)
    assert ask(f, X) == Verdict(False, "compile", ("lowered before, never compiled",), 1)


def test_asking_and_looking_change_no_cache(called):
    from jax._src import pjit

    def sizes():
        return (
            pjit._infer_params_cached.cache_info().currsize,
            pjit._pjit_lower.cache_info().currsize,
            called.f._cache_size(),
        )

    gc.collect()  # entries of functions that earlier tests left behind go by themselves
    before = sizes()
    ask(called.f, {"w": 1.0}, X, n=3)
    ask(called.f, {"w": 1.0}, X, n=4)
    assert sizes() == before
    taken = capture(called.f, ({"w": 1.0}, X), {"n": 9})
    assert taken.jaxpr.text
    assert taken.verdict.reasons == ("n: static value 9, was 3",)
    assert called.f._cache_size() == before[2]


def test_a_look_is_no_earlier_call_of_an_inner_function():
    inner = jax.jit(lambda x: x + 1)
    assert capture(lambda x: inner(x), (X,)).stablehlo.text
    assert ask(inner, X) == Verdict(False, "trace", ("never called before",), 0)


def test_a_plain_function_has_no_cache():
    def plain(x):
        return x

    verdict = ask(plain, X)
    assert verdict.hit is None
    assert verdict.reasons == ("plain is not jitted, and has no cache of its own",)


def test_a_decorator_of_a_jitted_function_is_not_called_eager():
    @jax.jit
    def f(x):
        return x + 1

    (reason,) = ask(functools.wraps(f)(lambda *args: f(*args)), X).reasons
    assert reason.startswith("f calls a jitted function from within a wrapper")


def test_an_attribute_that_is_jitted_makes_no_wrapper():
    class Layer:
        act = staticmethod(jax.nn.relu)

        def __init__(self):
            self.act = jax.nn.relu

        def __call__(self, x):
            return self.act(x)

    assert "not jitted" in ask(Layer(), X).reasons[0]


def test_calls_that_jax_refuses(called):
    assert ask(called.f, {"w": "a"}, X, n=3).reasons[0].startswith("JAX would refuse this call: ")
    (reason,) = ask(called.f, {"w": 1.0}, X, n=[3]).reasons
    assert reason == (
        "JAX would refuse this call: n is static and a list cannot be hashed; "
        "pass a tuple or another hashable value"
    )


def test_without_jaxs_keys_it_is_unknown(called, monkeypatch):
    monkeypatch.setattr("jaxlens.compat.trace_keys", lambda fun: None)
    verdict = ask(called.f, {"w": 1.0}, X, n=3)
    assert verdict == Verdict(
        None, reasons=("this version of JAX does not let its caches be read",)
    )


def test_many_differences_are_bounded():
    f = jax.jit(lambda *xs: sum(xs))
    f(*[1.0] * 50)
    verdict = ask(f, *[1] * 50)
    assert len(verdict.reasons) == 13
    assert verdict.reasons[-1] == "and 38 more differences"
