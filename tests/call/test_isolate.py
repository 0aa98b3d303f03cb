"""A look does not affect the user's next call: its traces, compiles and caches."""

import gc
import random
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlens.call import isolate
from jaxlens.stages.driver import capture
from tests.support.jax_events import EVENTS, listeners  # noqa: F401 (a fixture)

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]


class Program:
    """A jitted function that calls a jitted function and jnp's own, counting its traces."""

    def __init__(self):
        self.traces = []

        @jax.jit
        def inner(x):
            self.traces.append("inner")
            return x * 2

        @jax.jit
        def outer(x):
            self.traces.append("outer")
            return inner(x) + jnp.where(x > 1, x, 0) + jax.nn.relu(x)

        self.inner, self.outer = inner, outer

    def call(self, name, x):
        """Calls it, and returns everything observable of what JAX did."""
        self.traces.clear()
        EVENTS.clear()
        function = getattr(self, name)
        function(x).block_until_ready()
        sizes = self.inner._cache_size(), self.outer._cache_size()
        return list(self.traces), list(EVENTS), sizes


def look(f, *args):
    taken = capture(f, args)
    for stage in ("jaxpr", "stablehlo", "hlo", "optimized"):
        assert getattr(taken, stage).text
    assert taken.passes
    return taken


def history(look_before):
    """Observations of four calls with empty caches, with a look before one of them."""
    jax.clear_caches()
    program, x = Program(), np.ones(3, np.float32)
    seen = []
    for index, name in enumerate(("outer", "outer", "inner", "inner")):
        if index == look_before:
            look(program.outer, x)
            look(program.inner, x)
        seen.append(program.call(name, x))
    return seen


@pytest.fixture(scope="module")
def untouched():
    history(None)  # JAX's own first-time work
    return history(None)


@pytest.mark.parametrize("when", [0, 1, 2, 3])
def test_the_users_calls_do_what_they_would_have_done(untouched, when):
    assert history(look_before=when) == untouched


def test_the_history_tells_a_trace_from_a_hit(untouched):
    first, second, third, fourth = untouched
    assert first[0] == ["outer", "inner"]
    assert (second[0], second[1]) == ([], [])
    assert any("backend_compile" in name for name, _ in filter(lambda e: len(e) == 2, third[1]))
    assert (fourth[0], fourth[1]) == ([], [])


def test_a_jit_of_a_vmap_is_left_alone_too():
    traces = []

    def f(x):
        traces.append(1)
        return x + 1

    g = jax.jit(jax.vmap(f))
    look(g, jnp.ones(3))
    assert g._cache_size() == 0
    g(jnp.ones(3))
    look(g, jnp.ones(3))
    traces.clear()
    g(jnp.ones(3))
    assert traces == []
    assert g._cache_size() == 1


def test_a_second_look_traces_what_the_user_changed():
    scale = [2.0]

    @jax.jit
    def inner(x):
        return x * scale[0]

    def outer(x):
        return inner(x) + scale[0]

    before = capture(outer, (jnp.ones(3),)).jaxpr.text
    scale[0] = 5.0
    after = capture(outer, (jnp.ones(3),)).jaxpr.text
    assert before.count("2.0:f32[]") == 2
    assert after == before.replace("2.0:f32[]", "5.0:f32[]")


def test_donated_buffers_are_not_consumed():
    f = jax.jit(lambda x: x + 1, donate_argnums=0)
    x = jnp.ones(4)
    assert look(f, x).program.inputs[0].donated
    assert not x.is_deleted()
    assert f(x)[0] == 2


def test_warning_filters_are_as_before():
    filters = list(warnings.filters)
    look(lambda x: warnings.simplefilter("ignore") or x, jnp.ones(3))
    assert warnings.filters == filters


kept = None


def test_a_tracer_that_user_code_keeps_is_removed():
    class Model:
        last = None

        def __init__(self):
            self.calls = 0

        def __call__(self, x):
            global kept
            kept = [x]
            self.last = x
            self.calls += 1
            return x

    model = Model()
    assert capture(model, (jnp.ones(3),)).jaxpr.text
    assert kept is None
    assert vars(model) == {"calls": 1}


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupt_or_error_while_tracing_leaves_everything_as_it_was(error):
    def fails(x):
        random.random()
        raise error("now")

    python, here = random.getstate(), jax._src.config.trace_context()
    with pytest.raises(error, match="now"):
        _ = capture(fails, (jnp.ones(3),)).jaxpr
    assert random.getstate() == python
    assert jax._src.config.trace_context() == here
    assert capture(lambda x: x + 1, (jnp.ones(3),)).jaxpr.text


def test_our_frames_are_never_the_users_line():
    taken = capture(lambda x: jnp.sin(x), (jnp.ones(3),))
    (sin,) = taken.jaxpr.module.nodes()
    assert [span.file for span in sin.spans] == ["test_isolate.py"]
    assert "jaxlens/stages" not in taken.driver.lowered.as_text(debug_info=True)


def test_a_capture_lets_go_of_the_arrays_once_lowered():
    f = jax.jit(lambda x: x + 1)
    x = jnp.ones(1000)
    taken = look(f, x)
    holders = [h for h in gc.get_referrers(x) if isinstance(h, tuple | list | dict)]
    holders = [h for h in holders if h is not locals() and h is not globals()]
    assert holders == []
    assert taken.verdict.reasons == ("never called before",)


def test_the_context_is_shared_only_while_jaxs_own_functions_were_traced():
    isolate.retire()
    first = isolate.context()
    _ = capture(lambda x: jnp.where(x > 0, x, 1), (jnp.ones(3),)).jaxpr
    assert isolate.context() is first
    inner = jax.jit(lambda x: x + 1)
    _ = capture(lambda x: inner(x), (jnp.ones(3),)).jaxpr
    assert isolate.context() is not first
