"""One trace and one lowering, and none before a stage is read."""

import sys

import jax
import jax.numpy as jnp
import pytest

from jaxlens.call.target import resolve
from jaxlens.call.traceable import prepare
from jaxlens.questions.times.equations import equations
from jaxlens.stages.driver import capture
from jaxlens.stages.trace import lower as lowering
from jaxlens.stages.trace import trace as tracing

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]


@pytest.fixture
def counted():
    calls = []

    def f(x):
        calls.append(1)
        return jnp.sin(x) * 2

    return f, calls


def test_nothing_happens_before_it_is_asked_for(counted):
    f, calls = counted
    taken = capture(f, (jnp.ones(3),))
    assert (calls, taken.times) == ([], ())
    assert taken.verdict.hit is None
    assert calls == []
    assert taken.jaxpr.text
    assert taken.outputs[0].name == "result"
    assert [t.step for t in taken.times] == ["trace"]
    assert taken.stablehlo.module.nodes()
    assert taken.hlo.text
    assert [t.step for t in taken.times] == ["trace", "lower"]
    assert taken.optimized.text
    assert taken.kernels is not None
    assert calls == [1]
    assert [t.step for t in taken.times][:3] == ["trace", "lower", "compile"]
    assert all(t.seconds > 0 for t in taken.times)


def test_lowering_happens_once(counted, monkeypatch):
    f, _ = counted
    lowered = []
    real = lowering.lower
    monkeypatch.setattr(
        "jaxlens.stages.trace.lower.lower", lambda *a: lowered.append(1) or real(*a)
    )
    taken = capture(f, (jnp.ones(3),))
    for stage in ("stablehlo", "hlo", "optimized"):
        assert getattr(taken, stage).text
    assert lowered == [1]


def test_each_look_traces_anew(counted):
    f, calls = counted
    for look in (1, 2):
        assert capture(f, (jnp.ones(3),)).jaxpr.text
        assert len(calls) == look


def test_a_trace_knows_whether_functions_that_outlive_it_are_in_it():
    def foreign(f, *args):
        call = prepare(f, args, {})
        return tracing.trace(call, resolve(None, call.leaves)).survey.foreign

    x = jnp.ones(3)
    assert not foreign(lambda x: jnp.where(jax.nn.relu(x) > 0, x, 0), x)
    inner = jax.jit(lambda x: x)
    assert foreign(lambda x: inner(x) + 1, x)
    body = lambda c, t: (c + t, c)  # noqa: E731
    assert foreign(lambda x: jax.lax.scan(body, 0.0, x), x)
    one, two = lambda: 1, lambda: 2
    assert foreign(lambda x: jax.nn.relu(jax.lax.cond(x[0] > 0, one, two) * x), x)
    # Each trace makes these anew, so no cache gives their bodies to the next one.
    assert not foreign(lambda x: jax.lax.scan(lambda c, t: (c + t, c), 0.0, x), x)
    assert not foreign(lambda x: jax.nn.relu(jax.lax.cond(x[0] > 0, lambda: 1, lambda: 2) * x), x)


@pytest.mark.parametrize("transform", [lambda f: f, jax.grad])
def test_a_body_made_while_tracing_is_never_an_earlier_ones(transform):
    factor = 2.0

    def f(x):
        return jax.lax.scan(lambda c, t: (c + factor * t, None), 0.0, x)[0]

    first = capture(transform(f), (jnp.ones(3),)).jaxpr.text
    factor = 5.0
    second = capture(transform(f), (jnp.ones(3),)).jaxpr.text
    assert "2.0" in first
    assert "5.0" not in first
    assert second == first.replace("2.0", "5.0")


def test_hlo_before_optimisation_names_lines_and_frames(counted):
    f, _ = counted
    taken = capture(f, (jnp.ones(3),))
    assert "HloModule jit_f" in taken.hlo.text
    assert "StackFrames" in taken.hlo.text
    assert "test_trace.py" in taken.hlo.text
    owners = [n.owner.file for n in taken.hlo.module.nodes() if n.owner]
    assert owners
    assert set(owners) == {"test_trace.py"}
    assert not taken.hlo.module.unknown


def test_the_texts_are_stable():
    seen = []
    for _ in range(2):
        taken = capture(lambda x: jnp.cumsum(x) @ x, (jnp.ones(3),))
        seen.append((taken.jaxpr.text, taken.stablehlo.text, taken.hlo.text))
    assert seen[0] == seen[1]


def nested(levels):
    def f(x):
        return x + 1

    for _ in range(levels):
        f = jax.jit(lambda x, f=f: f(x) * 2)
    return f


def depth(works):
    """The most levels that work, by bisection."""
    low, high = 1, 200
    while low < high:
        middle = (low + high + 1) // 2
        try:
            works(middle)
            low = middle
        except RecursionError:
            high = middle - 1
    return low


@pytest.mark.parametrize("stage", ["trace", "lower", "text"])
def test_a_look_nests_as_deep_as_bare_jax(stage):
    bare = {
        "trace": lambda n: nested(n).trace(1.0),
        "lower": lambda n: nested(n).trace(1.0).lower(),
        "text": lambda n: nested(n).trace(1.0).jaxpr.pretty_print(use_color=False),
    }[stage]
    ours = {
        "trace": lambda n: capture(nested(n), (1.0,)).driver.traced,
        "lower": lambda n: capture(nested(n), (1.0,)).driver.lowered,
        "text": lambda n: capture(nested(n), (1.0,)).jaxpr.text,
    }[stage]
    ours(depth(bare))


def test_two_hundred_levels_are_lowered_and_read():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        taken = capture(nested(200), (1.0,))
        # No compile: on Python 3.11 bare JAX itself crashes there, its C stack used up.
        stages = {name: getattr(taken, name) for name in ("jaxpr", "stablehlo", "hlo")}
        assert all(stage.text for stage in stages.values())
    finally:
        sys.setrecursionlimit(limit)
    # Reading does not recurse: the usual limit is enough.
    counts = {name: sum(1 for _ in stage.module.nodes()) for name, stage in stages.items()}
    assert counts["jaxpr"] >= 200 + 200
    assert counts["stablehlo"] >= 200
    assert len(equations(stages["jaxpr"].module).times) >= 200


def test_a_failed_trace_can_be_tried_again(counted):
    broken = [True]

    def f(x):
        if broken[0]:
            raise ValueError("not yet")
        return x

    taken = capture(f, (jnp.ones(3),))
    with pytest.raises(ValueError, match="not yet"):
        _ = taken.jaxpr
    broken.clear()
    broken.append(False)
    assert taken.jaxpr.text
