"""Stamping does not change the user's objects, caches and threads."""

import signal
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core

import jaxlens
from jaxlens.ir.jaxpr.bodies import bodies, opened
from jaxlens.ir.stablehlo.stamps import assign
from jaxlens.stages.trace import stamp
from tests.support.jax_events import EVENTS, listeners  # noqa: F401 (a fixture)

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]


def program(x):
    with jax.named_scope("mine"):
        y, zs = jax.lax.scan(lambda c, _: (jnp.tanh(c), jax.nn.relu(c)), x, None, length=3)
    return y.sum() + zs.sum() + jnp.where(x > 0, x, 0).sum()


X = np.ones(5, np.float32)


def jaxpr_and_function():
    """A jaxpr that the user holds, and a function of it."""
    closed = jax.make_jaxpr(program)(X)
    return closed, lambda x: core.jaxpr_as_fun(closed)(x)[0]


def sources(closed):
    return [
        (eqn, eqn.source_info, str(eqn.source_info.name_stack))
        for body in bodies(opened(closed)).values()
        for eqn in body.jaxpr.eqns
    ]


def test_a_jaxpr_that_the_user_holds_is_as_it_was():
    closed, f = jaxpr_and_function()
    before, printed = sources(closed), str(closed)
    taken = jaxlens.capture(f, X)
    assert any(node.stamps for node in taken.optimized.module.nodes())
    assert sources(closed) == before
    assert str(closed) == printed
    assert "_jl" not in jax.jit(f).lower(X).as_text(debug_info=True)


def test_an_interrupt_while_all_is_put_back_comes_out_when_it_is():
    class Equation:
        """Is interrupted when its source is set."""

        def __init__(self, source):
            self.__dict__["source_info"] = source

        def __setattr__(self, name, value):
            signal.raise_signal(signal.SIGINT)
            self.__dict__[name] = value

    first, second = Equation("stamped"), Equation("stamped")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        assign("source_info", [(first, "first"), (second, "second")])
    signal.signal(signal.SIGINT, before)
    assert (first.source_info, second.source_info) == ("first", "second")


def test_the_jaxpr_looks_untouched_while_another_thread_lowers():
    """The equations are shared: one jaxpr, held by the user, is in both looks."""
    _, f = jaxpr_and_function()
    reader = jaxlens.capture(f, X)
    expected = jaxlens.capture(f, X)
    scopes = [node.scope for node in expected.jaxpr.module.nodes()]
    lowering, read = threading.Event(), threading.Event()

    def slow(traced):
        lowering.set()
        time.sleep(0.3)
        assert not read.is_set()  # the reader waits
        return traced.lower()

    traced = jax.jit(f).trace(X)
    thread = threading.Thread(target=stamp.lowered, args=(traced, slow))
    thread.start()
    assert lowering.wait(10)
    found = [node.scope for node in reader.jaxpr.module.nodes()]
    read.set()
    thread.join()
    assert found == scopes
    assert reader.jaxpr.text == expected.jaxpr.text
    assert any("mine" in scope for scope in scopes)


@pytest.fixture
def hurried():
    """Switches threads as often as possible, so that races show."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_looks_in_several_threads_have_the_ids_of_one(hurried):
    jax.clear_caches()  # which hold functions of JAX's that another test traced
    closed, f = jaxpr_and_function()
    before = sources(closed)
    one = jaxlens.capture(f, X)
    expected = [node.stamps for node in one.stablehlo.module.nodes()]
    assert any(expected)
    found = []

    def look():
        taken = jaxlens.capture(f, X)
        found.append([node.stamps for node in taken.stablehlo.module.nodes()])

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4
    assert sources(closed) == before


def test_deep_nesting_needs_no_recursion():
    def nested(depth):
        f = jnp.sin
        for _ in range(depth):
            f = jax.jit(lambda x, g=f: g(x) + 1)
        return f

    traced = jax.jit(nested(60)).trace(X)
    jaxpr = traced.jaxpr
    with stamp.stamped(jaxpr) as ids:
        assert len(ids) == len(sources(jaxpr))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    try:
        with stamp.stamped(jaxpr) as ids:
            assert ids
    finally:
        sys.setrecursionlimit(limit)
