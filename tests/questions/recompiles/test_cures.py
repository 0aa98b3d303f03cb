"""Each cure is applied as written and checked against JAX's count of compiles."""

import dataclasses
import functools
import gc
from collections import OrderedDict

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from tests.support.jax_events import Compiles, logged

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]

X = np.ones((8, 4), np.float32)
HIT = "the nearest earlier key differs in nothing else, so that call would have been a hit"


def the_cure(log):
    (cure,) = log.cures
    return cure


def hits(*calls):
    """Whether calls compile nothing."""
    with Compiles() as truth:
        for call in calls:
            call()
    return truth.names == []


def test_containers():
    f = jax.jit(lambda d: d["a"] + d["b"])
    log = logged(lambda: f(OrderedDict(a=1.0, b=2.0)), lambda: f(OrderedDict(b=2.0, a=1.0)))
    assert log.log.compiles[1].reason == "d: pytree OrderedDict of b, a, was OrderedDict of a, b"
    assert the_cure(log).tried == HIT
    assert hits(lambda: f(OrderedDict(a=3.0, b=4.0)))
    with jaxlens.recompiles() as log:
        f({"a": 1.0, "b": 2.0, "c": 3.0})
        f({"a": 1.0, "b": 2.0})  # nearer to the ordered ones, which hold the same keys
    assert log.log.compiles[1].main.kind == "structure"


def test_by_keyword_and_by_position():
    f = jax.jit(lambda x, n: x * n)
    log = logged(lambda: f(1.0, 2.0), lambda: f(1.0, n=2.0))
    assert log.log.compiles[1].reason == "n: passed by keyword, was by position"
    assert "n was passed by keyword, and by position before" in log.findings[0].text
    assert the_cure(log).text == "pass n always by position, or always by keyword"
    assert the_cure(log).tried == HIT
    assert hits(lambda: f(5.0, n=6.0), lambda: f(5.0, 6.0))


def test_an_argument_that_is_not_always_there():
    f = jax.jit(lambda x, y=None: x if y is None else x + y)
    log = logged(lambda: f(1.0), lambda: f(1.0, 2.0))
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
    assert the_cure(log).text == "set jax_enable_x64 once, before the first call"
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
    log = logged(lambda: f(X, mode="a"), lambda: f(X, mode="b"))
    assert the_cure(log).tried == "a str is no array"
    with jaxlens.recompiles() as log:
        f(X, mode=None)
    assert the_cure(log).tried == "None is no array"


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
    log = logged(lambda: f(X, Sized(2)), lambda: f(X, Sized(2)), lambda: f(X, Sized(3)))
    assert [call.reason for call in log.log.recompiles] == ["sized.size: static value 3, was 2"]
    assert the_cure(log).text.startswith("sized.size is part of the program")


def test_a_shape_is_told_as_a_whole():
    f = jax.jit(lambda x, shape: x.reshape(shape), static_argnums=1)
    log = logged(lambda: f(X, (8, 4)), lambda: f(X, (16, 2)))
    assert log.log.compiles[1].reason == "shape: static value (16, 2), was (8, 4)"
    assert "with shape as data tracing fails" in the_cure(log).tried


def test_a_list_that_grows():
    f = jax.jit(lambda xs: sum(x.sum() for x in xs))
    with jaxlens.recompiles() as log:
        for n in range(1, 5):
            f([X] * n)
    assert log.findings[0].text == (
        "<lambda> compiled 4 times, 3 times because xs came with more arrays: xs[1], xs[2], xs[3]."
    )
    assert the_cure(log).text == (
        "give xs the same arrays at every call, from the first on; where their number grows, one "
        "array with room for all, and a mask"
    )


@functools.partial(jax.tree_util.register_dataclass, data_fields=["w"], meta_fields=["n"])
@dataclasses.dataclass
class State:
    w: jax.Array
    n: int


def test_a_field_that_a_pytree_keeps():
    f = jax.jit(lambda state: state.w * 2)
    with jaxlens.recompiles() as log:
        for n in range(3):
            f(State(X, n))
    assert log.log.compiles[1].reason == "state.n: kept in the pytree 1, was 0"
    assert the_cure(log).text.endswith("or make it an array of the pytree")
    assert the_cure(log).tried == "their programs were compared: all 3 are equal"

    @functools.partial(jax.tree_util.register_dataclass, data_fields=["w", "n"], meta_fields=[])
    @dataclasses.dataclass
    class Cured(State):
        pass

    f(Cured(X, 0))
    assert hits(lambda: f(Cured(X, 1)), lambda: f(Cured(X, 2)))


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
    assert the_cure(log).text.startswith("make one jitted function for each value of n")
    assert "with n as data tracing fails (TypeError)" in the_cure(log).tried


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "bool"])
def test_functions_that_close_over_other_large_arrays_are_other_programs(dtype):
    def watched(last):
        with jaxlens.recompiles() as log:
            for n in (1, last):
                w = np.arange(200).astype(jnp.dtype(dtype))
                w[-1] = n
                jax.jit(lambda x, w=w: x + w)(X[0, 0])
        return the_cure(log).tried

    assert watched(0).startswith("of 2 programs 2 differ")
    assert watched(1) == "their programs were compared: both are equal"


def test_the_body_of_a_loop_outside_of_jit():
    def looped(body):
        jax.lax.scan(body, 0.0, np.ones(13, np.float32))

    with Compiles() as truth, jaxlens.recompiles() as log:
        for _ in range(3):
            looped(lambda c, x: (c + x, None))
    assert truth.names.count("jit(scan)") == 3
    assert any("each new function object as its body is" in f.text for f in log.findings)

    def body(c, x):
        return c + x, None

    looped(body)
    assert hits(lambda: looped(body), lambda: looped(body))


def test_a_value_deep_in_what_a_function_closes_over_is_named():
    def optimiser(rate):
        def update(grads):
            return -rate * grads

        return (update, {"name": "sgd"})

    def train(rate):
        optimizer = optimiser(rate)
        jax.jit(lambda w: w + optimizer[0](w))(X)

    log = logged(lambda: train(0.1), lambda: train(0.2))
    assert "with another optimizer[0].rate (0.1, 0.2)" in log.findings[0].text
    assert (
        the_cure(log).text
        == "keep one jitted function for each optimizer, or pass what differs in it"
    )
    assert the_cure(log).tried.startswith("of 2 programs 2 differ")


class Density:
    def __init__(self, n):
        self.n = n

    def at(self, x, scale):
        return x * self.n * scale


def test_methods_made_anew():
    density = Density(2.0)
    with jaxlens.recompiles() as log:
        for scale in (1.0, 2.0):
            jax.jit(functools.partial(density.at, scale=scale))(X)
    assert "with another scale (1.0, 2.0)" in log.findings[0].text
    assert the_cure(log).tried == "traced so: it works, and one program serves both values"
    with jaxlens.recompiles() as log:
        for n in (1.0, 3.0):
            jax.jit(Density(n).at)(X, 1.0)
    assert "with another self.n (1.0, 3.0)" in log.findings[0].text
    assert the_cure(log).text.startswith("keep one jitted function for each self")


def test_caches_that_are_cleared():
    f = jax.jit(lambda x: x * 2)
    log = logged(lambda: f(X), lambda: jax.clear_caches(), lambda: f(X))
    assert [call.main.kind for call in log.log.recompiles] == ["lost"]
    assert hits(lambda: f(X))


def test_keys_old_and_new():
    f = jax.jit(lambda key: jax.random.normal(key, (3,)))
    log = logged(lambda: f(jax.random.key(0)), lambda: f(jax.random.PRNGKey(0)))
    assert the_cure(log).text == (
        "give key one type at every call, u32[2] or key<fry>[], from the start"
    )


def test_one_kind_of_number():
    f = jax.jit(lambda x, rate: x * rate)
    log = logged(lambda: f(X, 0.1), lambda: f(X, np.float64(0.1)))
    assert log.findings[0].text.endswith(
        "because rate's weak type changed: weak f32[], f32[] (it came as numpy.float64)."
    )
    assert hits(lambda: f(X, 0.7))


def test_a_mapped_function_is_compared_by_what_it_is_given():
    f = jax.jit(lambda row: (row * row).sum())
    with Compiles() as truth, jaxlens.recompiles() as log:
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
    log = logged(lambda: step(made(), X), lambda: step(made(), X))
    assert log.log.compiles[1].reason.startswith("state.apply_fn: kept in the pytree another ")
    assert "state.apply_fn is kept in the pytree and each time another" in log.findings[0].text
    assert "state.tx" in the_cure(log).text
    assert the_cure(log).tried == "their programs were compared: both are equal"


def cures(log):
    return [f.text for f in log.findings if f.text.startswith("Cure: ")]


def test_a_static_number_that_could_be_data_is_tried():
    calls = []

    @functools.partial(jax.jit, static_argnames="n")
    def f(x, n):
        calls.append(n)
        return x * n

    with jaxlens.recompiles() as log:
        for n in range(3):
            f(X, n)
    assert calls == [0, 1, 2]
    (cure,) = cures(log)
    assert cure.startswith("Cure: pass n as data")
    assert "it works, and one program serves all 3 values" in cure
    assert [made.text for made in log.cures] == ["pass n as data: take it out of static_argnames"]


def test_powers_of_two_that_spare_no_program_are_not_proposed():
    rows = np.ones((8, 65), np.float32)
    f = jax.jit(lambda x: (x * x).sum())
    with jaxlens.recompiles() as log:
        for n in (65, 33, 17):
            f(rows[:, :n])
    (cure,) = cures(log)
    assert cure.startswith("Cure: pad x along axis 1 to 65, and mask what was padded")
    assert "(the program for f32[8,65] is there: calls of that shape hit it)" in cure
    assert hits(
        *(functools.partial(f, np.pad(rows[:, :n], ((0, 0), (0, 65 - n)))) for n in (33, 17))
    )


def test_the_count_of_padding_is_that_of_programs():
    rows = np.ones((128, 784), np.float32)
    f = jax.jit(lambda x: (x * x).sum())
    with jaxlens.recompiles() as log:
        for n in range(1, 10):
            f(rows[:n])
    assert log.findings[0].text == (
        "<lambda> compiled 9 times, 8 times because x's first axis changed: "
        "1, 2, 3, 4, 5, 6, 7, 8, ... (9 values)."
    )
    (cure,) = cures(log)
    assert "5 programs instead of 9 (not tried)" in cure
    before = f._cache_size()
    padded = [np.zeros((1 << (n - 1).bit_length(), 784), np.float32) for n in range(1, 10)]
    with jaxlens.recompiles() as again:
        for x in padded:
            f(x)
    assert again.compiles == 1  # 16; 1, 2, 4 and 8 are there: 5 in all
    assert f._cache_size() == before + 1


def test_a_trial_changes_no_cache_and_prints_nothing(capsys):
    @functools.partial(jax.jit, static_argnames="n")
    def f(x, n):
        print("traced")
        return x * n

    log = logged(lambda: f(X, 1), lambda: f(X, 2))
    before = f._cache_size()
    capsys.readouterr()
    with Compiles() as truth:
        assert cures(log)
    assert capsys.readouterr().out == ""
    assert truth.names == []
    assert f._cache_size() == before


def test_a_function_that_is_gone_with_an_array_is_said_to_be_untried():
    with jaxlens.recompiles() as log:

        def run(y):
            f = jax.jit(lambda x, n: x * n + y, static_argnums=1)
            for n in range(3):
                f(X, n)

        run(X)
        gc.collect()
    (cure,) = cures(log)
    assert cure.endswith("(not tried).")


def test_a_default_that_is_passed_is_another_key():
    @functools.partial(jax.jit, static_argnames="n")
    def f(x, n=2):
        return x * n

    log = logged(lambda: f(X), lambda: f(X, n=2))
    assert log.log.calls[1].reason == "n: static value 2, was not given (so 2)"
    (cure,) = cures(log)
    assert cure == ("Cure: pass n at every call, or at none (both mean the same, but not to JAX).")


def test_many_arrays_that_are_put_on_a_device_are_one_change():
    params = {f"w{i}": jnp.ones(3) for i in range(14)}
    f = jax.jit(lambda params, x: params["w3"] * x)
    moved = jax.device_put(params, jax.devices()[0])
    with jaxlens.recompiles() as log:
        f(params, 1.0)
        verdict = jaxlens.key(f, moved, 1.0).verdict
        f(moved, 1.0)
    place = "committed to cpu:0, was not committed to a device"
    assert log.log.compiles[1].reason == f"14 arrays of params: {place}"
    assert verdict.reasons == (f"14 arrays of params: {place}",)
    assert "because 14 arrays of params became committed to cpu:0." in log.findings[0].text
    assert the_cure(log).text == (
        "put params in one place with jax.device_put before the first call"
    )
    assert hits(lambda: f(jax.device_put(params, jax.devices()[0]), 1.0))


def test_a_state_that_gets_its_arrays_later():
    f = jax.jit(lambda state, x: jax.tree.map(lambda leaf: leaf + x, state))
    count = {"count": 0, **{f"m{i}": jnp.ones(3) for i in range(21)}}
    with jaxlens.recompiles() as log:
        f({"params": X, "opt": None}, 1.0)
        f({"params": X, "opt": count}, 1.0)
    assert "because 22 arrays of state['opt'] are new." in log.findings[0].text
    assert the_cure(log).text == (
        "give state the same arrays at every call, from the first on; where their number grows, "
        "one array with room for all, and a mask"
    )
    (finding,) = (each for each in log.findings if each.text.startswith("Cure: "))
    assert finding.trust == "compared"  # no time was measured, and nothing was traced


@pytest.mark.models
def test_an_optimiser_made_anew_is_to_be_made_once():
    optax = pytest.importorskip("optax")

    @functools.partial(jax.jit, static_argnames="tx")
    def update(params, state, tx):
        return tx.update(params, state, params)

    state = optax.adam(0.1).init(X)
    with jaxlens.recompiles() as log:
        for _ in range(2):
            tx = optax.adam(0.1)
            update(X, state, tx)
    assert log.findings[0].text.endswith(
        "because tx is static and each time another GradientTransformationExtraArgs."
    )
    assert the_cure(log).text == "make tx once, and pass that object"


@pytest.mark.models
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_optimiser_within_an_object_made_anew():
    nnx = pytest.importorskip("flax.nnx")
    optax = pytest.importorskip("optax")
    model = nnx.Linear(4, 2, rngs=nnx.Rngs(0))

    @nnx.jit
    def step(model, optimizer, x):
        grads = nnx.grad(lambda model: model(x).sum())(model)
        optimizer.update(model, grads)

    with jaxlens.recompiles() as log:
        for _ in range(2):
            step(model, nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param), X)
    again = log.log.compiles[1]
    assert again.reason == "optimizer.tx: kept in the pytree another object"
    assert "because optimizer.tx is kept in the pytree and was made anew." in log.findings[0].text
    assert the_cure(log).text == "make optimizer.tx once, and use the same object each time"


def optimised(rate, n=1.0):
    def update(x):
        return x * rate

    optimizer = (update, {"name": "sgd"})
    return jax.jit(lambda x: optimizer[0](x) * n)


def test_a_value_within_a_closure_is_not_said_to_hit_in_a_log_that_begins_later():
    first, again = optimised(0.1), optimised(0.2)
    with jaxlens.recompiles():
        first(X)
        with jaxlens.recompiles() as log:
            again(X)
    assert "with another optimizer[0].rate (0.1, 0.2)" in log.findings[0].text
    assert the_cure(log).text.startswith("keep one jitted function for each optimizer")
    assert the_cure(log).tried == ""
    with Compiles() as truth:
        optimised(0.1)(X)
        first(X)  # the object of the other value
    assert len(truth.names) == 1


def test_one_argument_is_no_cure_where_another_value_differs_too():
    with jaxlens.recompiles() as log:
        for rate, n in ((0.1, 1.0), (0.2, 2.0)):
            optimised(rate, n)(X)
    assert the_cure(log).text.startswith("keep one jitted function for each n and optimizer")


ONE_TYPE = "traced so: it works, and one program serves all values of one type and structure"
VALUES = {
    "two types": ((2, 2.5), ONE_TYPE),
    "two lengths": (((1, 2), (1, 2, 3)), ONE_TYPE),
    "no data": ((None, 2.0), ONE_TYPE),
    "long": ((tuple(range(9)), tuple(range(10))), ONE_TYPE),
    "one type": ((-1e-9, 2.5), "traced so: it works, and one program serves both values"),
}


@pytest.mark.parametrize(("values", "tried"), VALUES.values(), ids=VALUES)
def test_a_trace_is_for_values_of_one_type(values, tried):
    def scaled(x, n):
        return x if n is None else x * sum(jax.tree.leaves(n))

    jax.clear_caches()  # of the other cases, whose functions are of the same line
    f = jax.jit(scaled, static_argnums=1)
    with jaxlens.recompiles() as log:
        for n in values:
            f(X, n)
    assert the_cure(log).tried == tried
    g = jax.jit(scaled)
    with Compiles() as truth:
        for n in values:
            g(X, n)
    assert truth.names.count("jit(scaled)") == (2 if tried == ONE_TYPE else 1)


def test_a_value_that_comes_back_is_counted_once():
    with jaxlens.recompiles() as log:
        for n in (1.0, 2.0, 1.0):
            jax.jit(lambda x, n=n: x * n)(X)
    assert the_cure(log).tried == "traced so: it works, and one program serves both values"


@jax.tree_util.register_pytree_node_class
class Cyclic:
    def __hash__(self):
        return 1

    def __eq__(self, other):
        return isinstance(other, Cyclic)

    def tree_flatten(self):
        return (self,), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls()


def test_a_call_that_cannot_be_traced_again_was_not():
    f = jax.jit(lambda x, cyclic, n: x * n, static_argnums=(1, 2))
    with jaxlens.recompiles() as log:
        for n in (1, 2):
            f(X, Cyclic(), n)
    assert (the_cure(log).tried, the_cure(log).traced) == ("", False)


def test_a_pmap_is_padded_and_compared_with_earlier_watches():
    f = jax.pmap(lambda x: x * 2)
    with jaxlens.recompiles() as log:
        for n in (2, 3):
            f(np.ones((1, n), np.float32))
    assert the_cure(log).text.startswith("pad input 0 along axis 1 to 3")
    with jaxlens.recompiles() as log:
        f(np.ones((1, 4), np.float32))
    assert log.log.compiles[0].main.kind == "type"
    with jaxlens.recompiles() as log:
        f(np.ones((1, 5), np.float32))
        with jax.enable_x64(True):
            f(np.ones((1, 5), np.float32))
    assert "backward" not in log.findings[0].text
