"""Watching for recompiles: listeners, threads, nesting, `watch` and `assert_compiles`."""

import functools
import gc
import logging
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.errors import LensError, OptionError
from jaxlens.keys import explain
from tests.support.jax_events import Compiles, jitted_sum, logged

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]

X = np.ones((128, 784), np.float32)


def listeners():
    from jax._src import monitoring, util

    return (
        len(monitoring.get_event_listeners()),
        len(monitoring.get_event_duration_listeners()),
        len(monitoring.get_scalar_listeners()),
        util.test_event_listener,
    )


def test_without_a_persistent_cache_jax_hashes_no_program_twice():
    with jaxlens.recompiles() as log:
        jitted_sum()(X)
        assert not logging.getLogger("jax._src.cache_key").isEnabledFor(logging.DEBUG)
    assert log.compiles == 1


def test_a_compile_reads_no_function_of_another_line(monkeypatch):
    lines = {}
    exec("\n".join(f"def f{n}(x): return x + {n}" for n in range(50)), lines)
    others = [jax.jit(lines[f"f{n}"]) for n in range(50)]
    for other in others:
        other.trace(X)
    compared = []
    origin = explain.function_origin
    monkeypatch.setattr(explain, "function_origin", lambda f: compared.append(f) or origin(f))
    with jaxlens.recompiles() as log:
        jitted_sum()(X)
    assert log.compiles == 1
    assert not {f"f{n}" for n in range(50)} & {getattr(f, "__name__", "") for f in compared}


def test_no_listener_is_left_behind():
    before = listeners()
    with jaxlens.recompiles(), jaxlens.recompiles():
        jitted_sum()(X)
    with pytest.raises(ZeroDivisionError), jaxlens.recompiles():
        1 / 0
    assert listeners() == before


def test_watches_nest():
    f = jitted_sum()
    with jaxlens.recompiles() as outer:
        f(X)
        with jaxlens.recompiles() as inner:
            f(X[:5])
        f(X[:6])
    assert (outer.compiles, inner.compiles) == (3, 1)
    assert inner.log.calls[0].reason == "x: f32[5,784], was f32[128,784]"


def test_a_trace_that_fails():
    f = jax.jit(lambda x: 1 / 0)
    with jaxlens.recompiles() as log:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                f(X)
    assert [call.steps[0].failed for call in log.log.calls] == ["ZeroDivisionError"] * 2
    assert "failed: ZeroDivisionError while it was traced" in log.findings[1].text


def test_a_log_that_is_still_written():
    f = jitted_sum()
    with jaxlens.recompiles() as log:
        f(X)
        assert log.compiles == 1
        f(X[:3])
        assert log.compiles == 2
        assert "still watching" in str(log)
    assert "still watching" not in str(log)


def test_threads_are_named():
    f = jitted_sum()

    def work():
        f(X[:7])

    with jaxlens.recompiles() as log:
        thread = threading.Thread(target=work, name="loader")
        thread.start()
        thread.join()
        f(X[:8])
    assert [call.thread for call in log.log.calls] == ["loader", ""]
    assert "f [loader]" in str(log)
    assert "test_watching.py" in log.log.calls[0].line.file


def test_threads_at_once():
    functions = [jax.jit(lambda x, i=i: x * i) for i in range(6)]
    with Compiles() as truth, jaxlens.recompiles() as log:
        threads = [threading.Thread(target=f, args=(X[: i + 1],)) for i, f in enumerate(functions)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert log.compiles == len(truth.names) == 6
    assert all(len(call.steps) == 3 for call in log.log.calls)


def test_it_keeps_no_array_alive():
    import weakref

    f = jitted_sum()
    x = jnp.ones((3, 9))
    reference = weakref.ref(x)
    with jaxlens.recompiles() as log:
        f(x)
        del x
        gc.collect()
        assert reference() is None
    assert log.compiles == 1


def np_like(n, x):
    return x * n


class Model:
    def double(self, x):
        return x * 2


def program(f):
    """A program that compiles for many reasons."""
    for n in (3, 4, 3):
        f(np.ones(n, np.float32))
        jax.jit(lambda x: x * 2)(np.ones(n, np.float32))
        jax.jit(functools.partial(np_like, n))(np.ones(n, np.float32))
        jax.grad(lambda x: f(x))(np.ones(n, np.float32))
        jax.jit(Model().double)(np.ones(n, np.float32))
        gc.collect()
    f(jax.device_put(np.ones(3, np.float32), jax.devices()[0]))


def test_a_watched_program_compiles_as_often_as_an_unwatched_one():
    def counted(watch):
        jax.clear_caches()
        f = jitted_sum()
        with Compiles() as truth:
            if watch:
                with jaxlens.recompiles() as log:
                    program(f)
                assert len(log.log.compiles) + len(log.log.operations) == len(truth.names)
            else:
                program(f)
        return truth.names

    assert counted(True) == counted(False)


def test_without_jaxs_stack_the_steps_are_still_counted(monkeypatch):
    monkeypatch.setattr("jaxlens.compat.events._PJIT", ("nowhere.py",))
    monkeypatch.setattr("jaxlens.compat.events.hear_test_events", lambda names, heard: None)
    f = jitted_sum()
    log = logged(lambda: f(X), lambda: f(X[:9]))
    assert log.compiles == 2


# ---- assert_compiles ---------------------------------------------------------------


def test_assert_compiles():
    f = jitted_sum()
    with jaxlens.assert_compiles(1) as log:
        f(X)
        f(X)
    assert log.compiles == 1
    with pytest.raises(AssertionError) as error, jaxlens.assert_compiles(0):
        f(X[:2])
    assert isinstance(error.value, LensError)
    said = str(error.value)
    assert said.startswith("expected no compile, got 1: f at test_watching.py:")
    assert said.endswith("(x: f32[2,784], was f32[128,784])")
    assert "\n" not in said


def test_assert_compiles_as_a_decorator():
    f = jitted_sum()

    @jaxlens.assert_compiles(1)
    def test(n):
        f(X[:n])
        f(X[: n + 1])

    with pytest.raises(jaxlens.RecompileError, match="at most 1 compile, got 2"):
        test(11)
    f(X[:12])
    test(11)  # both are there now


def test_assert_compiles_leaves_other_errors_alone():
    def fails():
        jitted_sum()(X)
        raise KeyError("mine")

    with pytest.raises(KeyError), jaxlens.assert_compiles(0):
        fails()
    with pytest.raises(OptionError, match="count of 0 or more"):
        jaxlens.assert_compiles(-1)


def test_assert_compiles_can_count_operations():
    with jaxlens.assert_compiles(0):
        jnp.cos(np.ones((13, 17), np.float32))
    with pytest.raises(jaxlens.RecompileError), jaxlens.assert_compiles(0, operations=True):
        jnp.cos(np.ones((13, 18), np.float32))
