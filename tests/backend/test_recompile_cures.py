"""Each cure is applied as it is written, and JAX's own count of compiles says whether it is one."""

import dataclasses
import functools
from collections import OrderedDict

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens

pytestmark = pytest.mark.backend

X = np.ones((8, 4), np.float32)
HIT = "the nearest earlier key differs in nothing else, so that call would have been a hit"


class Compiled:
    """Names of what JAX compiles, as JAX tells of them."""

    def __init__(self):
        self.names = []

    def __enter__(self):
        jax.monitoring.register_event_duration_secs_listener(self._hear)
        return self

    def __exit__(self, *_):
        jax.monitoring.unregister_event_duration_listener(self._hear)

    def _hear(self, event, _, **about):
        if event.endswith("backend_compile_duration"):
            self.names.append(about["fun_name"])


def the_cure(log):
    (cure,) = log.cures
    return cure


def hits(*calls):
    """Whether calls compile nothing."""
    with Compiled() as truth:
        for call in calls:
            call()
    return truth.names == []


def test_containers():
    f = jax.jit(lambda d: d["a"] + d["b"])
    with jaxlens.recompiles() as log:
        f(OrderedDict(a=1.0, b=2.0))
        f(OrderedDict(b=2.0, a=1.0))
    assert log.log.compiles[1].reason == "d: pytree OrderedDict of b, a, was OrderedDict of a, b"
    assert the_cure(log).tried == HIT
    assert hits(lambda: f(OrderedDict(a=3.0, b=4.0)))
    with jaxlens.recompiles() as log:
        f({"a": 1.0, "b": 2.0, "c": 3.0})
        f({"a": 1.0, "b": 2.0})  # nearer to the ordered ones, which hold the same keys
    assert log.log.compiles[1].main.kind == "structure"


def test_by_keyword_and_by_position():
    f = jax.jit(lambda x, n: x * n)
    with jaxlens.recompiles() as log:
        f(1.0, 2.0)
        f(1.0, n=2.0)
    assert log.log.compiles[1].reason == "n: passed by keyword, was by position"
    assert "n was passed by keyword, and by position before" in log.findings[0].text
    assert the_cure(log).text == "pass n always by position, or always by keyword"
    assert the_cure(log).tried == HIT
    assert hits(lambda: f(5.0, n=6.0), lambda: f(5.0, 6.0))


def test_an_argument_that_is_not_always_there():
    f = jax.jit(lambda x, y=None: x if y is None else x + y)
    with jaxlens.recompiles() as log:
        f(1.0)
        f(1.0, 2.0)
    assert (the_cure(log).text, the_cure(log).tried) == ("pass y at every call, or at none", HIT)
    with jaxlens.recompiles() as log:
        f(1.0, None)
    assert "y came in other containers: " in log.findings[0].text
    assert "not given, None" in log.findings[0].text


def test_settings():
    f = jax.jit(lambda x: x + 1)
    with jaxlens.recompiles() as log:
        f(1.0)
        with jax.enable_x64(True):
            f(1.0)
    assert the_cure(log).tried == HIT  # the type follows from the setting
    wide = jax.jit(lambda x: x + 1)
    with jax.enable_x64(True):
        x = jnp.ones(3, jnp.float64)
    with jaxlens.recompiles() as log:
        wide(np.ones(3, np.float32))
        with jax.enable_x64(True):
            wide(x)
    assert the_cure(log).tried == "the nearest earlier key differs in x too"


def test_donation():
    def f(x):
        return x * 2

    with jaxlens.recompiles() as log:
        jax.jit(f)(jnp.asarray(X))
        jax.jit(f, donate_argnums=0)(jnp.asarray(X) + 0)
    assert the_cure(log).tried == HIT
    assert hits(lambda: jax.jit(f)(jnp.asarray(X)))


@dataclasses.dataclass(frozen=True)
class Config:
    rate: float
    n: int


def test_the_field_of_a_configuration_as_data():
    @functools.partial(jax.jit, static_argnums=1)
    def f(x, config):
        return (x * config.rate).reshape(config.n, -1)

    with jaxlens.recompiles() as log:
        for rate in (0.1, 0.2, 0.3):
            f(X, Config(rate, 2))
    assert log.log.compiles[1].reason == "config.rate: static value 0.2, was 0.1"
    assert the_cure(log).text == "pass config.rate as data: in an argument that is not static"
    assert "it works, and one program serves all 3 values" in the_cure(log).tried

    def cured(x, rate):
        return f.__wrapped__(x, Config(rate, 2))

    g = jax.jit(cured)
    g(X, 0.1)
    assert hits(lambda: g(X, 0.2), lambda: g(X, 0.3))
    with jaxlens.recompiles() as log:
        f(X, Config(0.3, 4))
    assert the_cure(log).text.startswith("config.n is part of the program")
    assert "it must stay static" in the_cure(log).tried


def test_a_text_is_never_data():
    f = jax.jit(lambda x, mode: x, static_argnames="mode")
    with jaxlens.recompiles() as log:
        f(X, mode="a")
        f(X, mode="b")
    assert the_cure(log).tried == "a str is no array"


class Net:
    def __init__(self, n):
        self.n = n

    @functools.partial(jax.jit, static_argnums=0)
    def __call__(self, x):
        return x * self.n


def test_objects_that_equal_no_other():
    with jaxlens.recompiles() as log:
        for _ in range(3):
            Net(2)(X)
    assert "self is static and each time another" in log.findings[0].text
    assert the_cure(log).tried.endswith("their programs were compared: all 3 are equal")
    with jaxlens.recompiles() as log:
        Net(5)(X)
    assert log.log.compiles[0].reason == "self.n: static value 5, was 2"
    assert the_cure(log).tried == "traced so: it works, and one program serves both values"


class Sized:
    def __init__(self, size):
        self.size = size

    def __hash__(self):
        return self.size

    def __eq__(self, other):
        return isinstance(other, Sized) and other.size == self.size


def test_objects_with_an_equality_of_their_own():
    f = jax.jit(lambda x, sized: jnp.resize(x, (sized.size,)), static_argnums=1)
    with jaxlens.recompiles() as log:
        f(X, Sized(2))
        f(X, Sized(2))
        f(X, Sized(3))
    assert [call.reason for call in log.log.recompiles] == ["sized.size: static value 3, was 2"]
    assert the_cure(log).text.startswith("sized.size is part of the program")


def test_a_shape_is_told_as_a_whole():
    f = jax.jit(lambda x, shape: x.reshape(shape), static_argnums=1)
    with jaxlens.recompiles() as log:
        f(X, (8, 4))
        f(X, (16, 2))
    assert log.log.compiles[1].reason == "shape: static value (16, 2), was (8, 4)"
    assert "with shape as data tracing fails" in the_cure(log).tried


def test_a_list_that_grows():
    f = jax.jit(lambda xs: sum(x.sum() for x in xs))
    with jaxlens.recompiles() as log:
        for n in range(1, 5):
            f([X] * n)
    assert log.findings[0].text == (
        "<lambda> compiled 4 times; 3 of them because xs came with more arrays: "
        "xs[1], xs[2], xs[3]."
    )
    assert the_cure(log).text.startswith("give xs one number of arrays")


def test_a_static_function_made_anew():
    f = jax.jit(lambda x, g: g(x), static_argnums=1)
    with jaxlens.recompiles() as log:
        for _ in range(2):
            f(X, lambda v: v * 2)
    assert the_cure(log).tried == "their programs were compared: both are equal"


_n = 0.0  # a global that the functions below read


@pytest.mark.parametrize("kind", ["partial", "closure", "default", "global"])
def test_what_a_function_closes_over_is_named_and_tried_as_data(kind):
    def scaled(x, n):
        return x * n

    def made(n):
        globals()["_n"] = n
        return {
            "partial": functools.partial(scaled, n=n),
            "closure": lambda x: x * n,
            "default": lambda x, n=n: x * n,
            "global": lambda x: x * _n,
        }[kind]

    with jaxlens.recompiles() as log:
        for n in (2.0, 3.0):
            jax.jit(made(n))(X)
    name = "_n" if kind == "global" else "n"
    assert f"with another {name} (2.0, 3.0)" in log.findings[0].text
    assert f"with {name} as an argument" in the_cure(log).text
    assert the_cure(log).tried == "traced so: it works, and one program serves both values"
    f = jax.jit(scaled)
    f(X, 2.0)
    assert hits(lambda: f(X, 3.0))


def test_what_a_function_closes_over_may_have_to_stay():
    with jaxlens.recompiles() as log:
        for n in (2, 4):
            jax.jit(lambda x, n=n: jnp.broadcast_to(x, (n, 8, 4)))(X)
    assert the_cure(log).text.startswith("make the jitted function once for each value of n")
    assert "with n as data tracing fails (TypeError)" in the_cure(log).tried


def test_the_body_of_a_loop_outside_of_jit():
    def looped(body):
        jax.lax.scan(body, 0.0, np.ones(13, np.float32))

    with Compiled() as truth, jaxlens.recompiles() as log:
        for _ in range(3):
            looped(lambda c, x: (c + x, None))
    assert truth.names.count("jit(scan)") == 3
    cure = next(f.text for f in log.findings if f.text.startswith("Cure: "))
    assert cure.startswith("Cure: make the function that lax.scan is given once, before the loop")
    assert cure.endswith("(their programs were compared: all 3 are equal).")

    def body(c, x):
        return c + x, None

    looped(body)
    assert hits(lambda: looped(body), lambda: looped(body))


def test_keys_old_and_new():
    f = jax.jit(lambda key: jax.random.normal(key, (3,)))
    with jaxlens.recompiles() as log:
        f(jax.random.key(0))
        f(jax.random.PRNGKey(0))
    assert "jax.random.key or jax.random.PRNGKey" in the_cure(log).text


def test_one_kind_of_number():
    f = jax.jit(lambda x, rate: x * rate)
    with jaxlens.recompiles() as log:
        f(X, 0.1)
        f(X, np.float64(0.1))
    assert log.findings[0].text.endswith(
        "because rate's weak type changed: weak f32[], f32[] (it came as numpy.float64)."
    )
    assert hits(lambda: f(X, 0.7))


def test_a_mapped_function_is_compared_by_what_it_is_given():
    f = jax.jit(lambda row: (row * row).sum())
    with Compiled() as truth, jaxlens.recompiles() as log:
        for n in (2, 3, 4):
            jax.vmap(f)(X[:n])
    assert len(truth.names) == log.compiles == 3
    assert [call.reason for call in log.log.recompiles] == [
        "row: f32[3,4], was f32[2,4]",
        "row: f32[4,4], was f32[3,4]",
    ]


@pytest.mark.models
def test_a_train_state_that_is_made_anew():
    train_state = pytest.importorskip("flax.training.train_state")
    optax = pytest.importorskip("optax")

    def made():
        return train_state.TrainState.create(
            apply_fn=lambda params, x: x * params, params=jnp.ones(4), tx=optax.sgd(0.1)
        )

    step = jax.jit(lambda state, x: state.apply_fn(state.params, x))
    with jaxlens.recompiles() as log:
        step(made(), X)
        step(made(), X)
    assert log.log.compiles[1].reason.startswith("state.apply_fn: kept in the pytree another ")
    assert "state.apply_fn is kept in the pytree and each time another" in log.findings[0].text
    assert "state.tx" in the_cure(log).text
    assert the_cure(log).tried == "their programs were compared: both are equal"
