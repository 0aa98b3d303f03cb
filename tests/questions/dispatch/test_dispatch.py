"""What a call costs: leaves and functions of Python are counted here too; times differ by far."""

import sys
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import jaxlens
from jaxlens.compat.calls_heard import hear_calls
from jaxlens.errors import OptionError, UnavailableError
from jaxlens.questions.dispatch.call_cost import (
    BOTH,
    DEVICE,
    PYTHON,
    CallArgument,
    CallCost,
    CallPart,
)
from jaxlens.questions.dispatch.report import of_run, report

pytestmark = pytest.mark.backend
X = jnp.ones(4)


def scale(params, by):
    return jax.tree.map(lambda leaf: leaf * by, params)


def test_two_thousand_leaves_cost_more_than_two():
    costs = []
    for n in (2, 2000):
        params = {f"p{i}": np.ones(1, "float32") for i in range(n)}
        costs.append(jaxlens.dispatch(jax.jit(scale), params, 2.0))
        leaves = {argument.name: argument.leaves for argument in costs[-1].arguments}
        assert leaves == {"params": len(jax.tree.leaves(params)), "by": 1}
        assert costs[-1].results == n
    few, many = ({part.name: part.seconds for part in cost.parts} for cost in costs)
    flatten = "jit flattens the arguments"
    assert many[flatten] > 20 * few[flatten]
    assert costs[1].before > 20 * costs[0].before
    assert costs[1].limit == PYTHON
    assert costs[1].findings[-1].text.startswith("More than half is for leaves")
    assert costs[1].is_fast


def test_a_program_that_computes_much_is_limited_by_the_device():
    cost = jaxlens.dispatch(jax.jit(lambda x: x @ x @ x @ x), jnp.ones((1000, 1000)))
    assert cost.limit == DEVICE
    assert cost.findings[0].text.startswith("The device is the limit of ")
    assert [table.title for table in cost.tables] == ["A call", "Arguments"]


@jax.tree_util.register_pytree_node_class
class Pair:
    """A pytree of a class, which Python flattens."""

    def __init__(self, *parts):
        self.parts = parts

    def tree_flatten(self):
        return self.parts, None

    @classmethod
    def tree_unflatten(cls, _, parts):
        return cls(*parts)


MLP = eqx.nn.MLP(4, 4, 4, 2, key=jax.random.key(0))


def linear():
    return nnx.Sequential(*[nnx.Linear(4, 4, rngs=nnx.Rngs(0)) for _ in range(3)])


def python_calls(f, *args):
    """Functions of Python in the fourth call."""
    seen = []
    for _ in range(4):
        seen.clear()
        sys.setprofile(lambda frame, event, _: seen.append(frame) if event == "call" else None)
        try:
            f(*args)
        finally:
            sys.setprofile(None)
    return len(seen)


CALLS = {
    "jit": lambda: (jax.jit(lambda x: x + 1), X),
    "pair": lambda: (jax.jit(lambda pair: pair.parts[0] + 1), Pair(X, X)),
    "nnx": lambda: (nnx.jit(lambda model, x: model(x)), linear(), X[None]),
    "equinox": lambda: (eqx.filter_jit(lambda model, x: model(x)), MLP, X),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_functions_of_python_in_a_call_are_counted(name):
    call = CALLS[name]()
    cost = jaxlens.dispatch(*call)
    counted = python_calls(*CALLS[name]())
    assert cost.python_calls == pytest.approx(counted, rel=0.02, abs=3)  # and a collector's
    assert cost.is_fast
    path = " ".join(finding.text for finding in cost.findings)
    said = {
        "jit": "it runs no function of Python",
        "pair": "of Python for pytrees of a class",
        "nnx": "nnx.jit takes the arguments apart first",
        "equinox": "eqx.filter_jit takes the arguments apart first",
    }
    assert said[name] in path
    assert ("the wrapper of" in cost.parts[0].name) == (name in ("nnx", "equinox"))


def test_calls_that_are_heard_are_timed_without_what_hears_them():
    heard = []
    stop = hear_calls(lambda *call: heard.append(call), lambda _: None)
    try:
        assert jaxlens.dispatch(jax.jit(lambda x: x + 1), X).python_calls == 0
        known, f = len(heard), jax.jit(lambda x: x + 2)
        f(X), f(X), f(X)
        assert len(heard) > known
    finally:
        stop()


def test_other_ways_are_tried():
    tried = {name: [way.name for way in jaxlens.dispatch(*CALLS[name]()).tried] for name in CALLS}
    assert tried["jit"] == tried["pair"] == ["compiled ahead of time"]
    assert tried["nnx"] == ["nnx.cached_partial", "the jax.jit inside, alone"]
    assert tried["equinox"] == ["the jax.jit inside, alone"]


def test_nothing_of_the_users_is_changed():
    step = jax.jit(lambda state, g: state - g, donate_argnums=0)
    state = jnp.ones(4)
    jaxlens.dispatch(step, state, X)
    assert not state.is_deleted()
    assert step._cache_size() == 0

    @nnx.jit
    def add(model, x):
        model.kernel[...] = model.kernel[...] + x

    model = nnx.Linear(4, 4, rngs=nnx.Rngs(0))
    before = np.asarray(model.kernel[...])
    seen = sys.getprofile()
    jaxlens.dispatch(add, model, 1.0)
    assert (np.asarray(model.kernel[...]) == before).all()
    assert add.jitted_fn._cache_size() == 0
    assert sys.getprofile() is seen

    # The static arguments of Equinox hold trees that know sentinels by their identity. JAX would
    # warn of `x`, donated in vain, which is an error in tests.
    conv = eqx.nn.Conv2d(1, 1, 3, key=jax.random.key(0))
    given = eqx.filter_jit(lambda model, x: (model, model(x)), donate="all")
    assert jaxlens.dispatch(given, conv, jnp.ones((1, 4, 4))).facts.parts
    assert not conv.weight.is_deleted()


def eager(x):
    return jnp.sin(x) * 2 + 1


def test_what_is_not_jitted_is_said():
    cost = jaxlens.dispatch(eager, X)
    assert "eager is not jitted: as written each operation is a dispatch" in cost.findings[1].text


def test_static_arguments_are_no_leaves():
    cost = jaxlens.dispatch(jax.jit(lambda x, n: x * n, static_argnums=1), X, 3)
    assert [(argument.name, argument.leaves) for argument in cost.arguments] == [("x", 1)]


def test_what_cannot_be_called_says_why():
    with pytest.raises(OptionError, match="--dispatch needs arrays"):
        str(jaxlens.dispatch(eager, jax.ShapeDtypeStruct((4,), "float32")))
    call = eqx.filter_jit(lambda model, x: model(x))
    with pytest.raises(OptionError, match=r"got only the shape \(4,\) of x;"):
        str(jaxlens.dispatch(call, MLP, jax.ShapeDtypeStruct((4,), "float32")))
    compiled = jaxlens.capture(eager, X)
    assert compiled.optimized
    with pytest.raises(UnavailableError, match="ask --dispatch in a look of its own"):
        str(jaxlens.dispatch(compiled))


def cost(before, device, **more):
    parts = (CallPart("the wrapper of nnx.jit", before), CallPart("jit flattens", 0.0))
    return CallCost("f", "nnx.jit", parts, device, (CallArgument("x", 1, 0.0),), 1, 5, True, **more)


@pytest.mark.parametrize(
    ("before", "device", "limit"), [(2.0, 1.0, PYTHON), (1.0, 2.0, DEVICE), (1.5, 1.0, BOTH)]
)
def test_the_limit_takes_twice_as_long(before, device, limit):
    assert cost(before, device).limit == limit


def test_seconds_are_not_in_the_stable_text():
    best = CallPart("nnx.cached_partial", 0.4, "code")
    first, *_, last = report(cost(1.0, 0.0, tried=(best,))).findings
    assert first.text == "Python is the limit of f, most of all the wrapper of nnx.jit."
    assert first.lead == "1 s before the device works, too little to measure on it. "
    assert last.text == "Less than half before the device works: nnx.cached_partial."
    assert last.measured == f"{last.text[:-1]}: 400 ms in place of 1 s (code)."
    slower = replace(best, seconds=0.6)
    texts = [finding.text for finding in report(cost(1.0, 0.0, tried=(slower,))).findings]
    assert not any("Less than half" in text for text in texts)


BEFORE = "Python is the limit of f: 1 s of a call before the device works, 100 ms on it; "
HALF = CallPart("nnx.cached_partial", 0.4, "code")
SAID = {  # of a run, by what its call costs
    "halved": (cost(1.0, 0.1, tried=(HALF,)), BEFORE + "nnx.cached_partial takes 400 ms (code)."),
    "the first of two": (
        cost(1.0, 0.1, tried=(HALF, replace(HALF, name="another", seconds=0.1))),
        BEFORE + "nnx.cached_partial takes 400 ms (code).",
    ),
    "leaves": (
        replace(cost(1.0, 0.1, each=0.006), results=100),
        BEFORE + "most is for 101 leaves: stack alike layers (not tried).",
    ),
    "not halved": (
        cost(1.0, 0.1, tried=(replace(HALF, seconds=0.6),)),
        BEFORE + "nothing that was tried takes half of it (--dispatch).",
    ),
    "the device": (cost(1.0, 2.0, tried=(HALF,)), ""),
    "both": (cost(1.0, 0.6, tried=(HALF,)), ""),
    "as any call": (cost(1.0, 0.1, tried=(HALF,), least=0.6), ""),
    "not jitted": (cost(1.0, 0.1, tried=(HALF,), unjitted=True), ""),
}


@pytest.mark.parametrize("name", SAID)
def test_a_run_says_in_a_sentence_that_python_is_the_limit(name):
    called, sentence = SAID[name]
    assert " ".join(finding.text for finding in of_run(called)) == sentence


DEEP = nnx.Sequential(*[nnx.Linear(4, 4, rngs=nnx.Rngs(0)) for _ in range(20)])
RUNS = {  # a jitted function, its arguments, and what a run of it says
    "nnx": (lambda: nnx.jit(lambda deep, x: deep(x)), (DEEP, X[None]), "nnx.cached_partial takes"),
    "leaves": (
        lambda: jax.jit(lambda params, by: params[0] * by),
        ({n: X + n for n in range(2000)}, 2.0),
        "most is for 2,002 leaves",
    ),
    "device": (
        lambda: jax.jit(lambda x: x @ x @ x @ x, donate_argnums=0),
        (jnp.ones((1000, 1000)),),
        "",
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_measured_beside_its_call(name):
    make, args, said = RUNS[name]
    f = make()
    text = str(jaxlens.compile(jaxlens.capture(f, *args), run=10))
    above = " ".join(text.partition("Measured\n")[0].split())
    assert ("- Python is the limit of " in above) == bool(said)
    assert said in above
    assert getattr(f, "jitted_fn", f)._cache_size() == 0
    assert not any(x.is_deleted() for x in jax.tree.leaves(args) if isinstance(x, jax.Array))
