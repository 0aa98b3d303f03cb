"""`--run`: the right answer, measured, with the caller's arrays left alive."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.errors import OptionError, UnavailableError
from jaxlens.stages.compile.xla import compile_lowered
from jaxlens.stages.measure.execute import run

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]


def executable(f, *args, **kwargs):
    return compile_lowered(f.trace(*args, **kwargs).lower(), name="f").executable


def test_result_and_times():
    args = ({"w": jnp.ones((8, 8))}, np.full((8, 8), 2.0, "float32"))
    done = run(executable(jax.jit(lambda p, x: {"y": p["w"] @ x}), *args), args, 3)
    assert np.allclose(done.outputs["y"], 16)
    assert len(done.seconds) == 3
    assert all(s > 0 for s in done.seconds)
    assert done.warmup == 1
    assert "block_until_ready" in done.how


def test_donated_inputs_stay_alive():
    f = jax.jit(lambda state, x: ({"w": state["w"] + x}, x), donate_argnums=0)
    state, x = {"w": jnp.ones((16, 16))}, jnp.ones((16, 16))
    done = run(executable(f, state, x), (state, x), 5)
    assert not state["w"].is_deleted()
    assert np.allclose(state["w"], 1)
    assert np.allclose(done.outputs[0]["w"], 2)
    assert "donated inputs were copied" in done.how


def test_random_keys_scalars_and_unused_arguments():
    def draw(key, c, unused):
        return jax.random.split(key)[0], jax.random.normal(key, (4,)) * c

    f = jax.jit(draw, donate_argnums=0)
    key = jax.random.key(1)
    args = (key, 2.0, jnp.ones(3))
    done = run(executable(f, *args), args, 2)
    assert not key.is_deleted()
    assert np.allclose(done.outputs[1], jax.random.normal(jax.random.key(1), (4,)) * 2)


def test_keywords():
    f = jax.jit(lambda x, *, y: x - y)
    args, kwargs = (jnp.float32(3),), {"y": jnp.float32(1)}
    assert run(executable(f, *args, **kwargs), args, 1, kwargs).outputs == 2


def test_effects_happen_once_per_run():
    calls = []
    f = jax.jit(lambda x: jax.debug.callback(lambda v: calls.append(v), x) or x + 1)
    run(executable(f, 1.0), (1.0,), 3)
    jax.effects_barrier()
    assert len(calls) == 4


def test_refuses():
    f = jax.jit(lambda x: x + 1)
    with pytest.raises(OptionError, match="at least 1 run, got 0"):
        run(executable(f, 1.0), (1.0,), 0)
    shape = jax.ShapeDtypeStruct((3,), "float32")
    with pytest.raises(OptionError, match=r"only the shape \(3,\) of input 0"):
        run(executable(f, shape), (shape,), 1)


def test_absent_device():
    class Absent:
        args_info = input_shardings = ()

        def __call__(self):
            raise ValueError("Cannot execute: load() was not called on the executable")

    with pytest.raises(UnavailableError, match="device that is not here"):
        run(Absent(), (), 1)


def test_the_programs_own_error_is_unchanged():
    def fail(x):
        raise ZeroDivisionError("mine")

    f = jax.jit(lambda x: jax.pure_callback(fail, jax.ShapeDtypeStruct((), "float32"), x))
    with pytest.raises(Exception, match="mine"):
        run(executable(f, 1.0), (1.0,), 1)


@pytest.mark.parametrize("verb", ["first_nan", "numerics", "values", "timeline"])
def test_arrays_of_several_processes_are_not_run_on_in_one_alone(monkeypatch, verb):
    x = jnp.ones(3)
    monkeypatch.setattr(type(x), "is_fully_addressable", property(lambda self: False))
    with pytest.raises(UnavailableError, match="arrays of several processes, in which this one"):
        str(getattr(jaxlens, verb)(jax.jit(jnp.sin), x))


def test_a_program_of_several_processes_is_not_run_by_one_alone(monkeypatch):
    capture = jaxlens.capture(jax.jit(jnp.sin), np.ones(3))  # arrays of the host lie nowhere
    monkeypatch.setattr(
        type(jnp.ones(3).sharding), "is_fully_addressable", property(lambda self: False)
    )
    with pytest.raises(UnavailableError, match="--run runs a program on arrays of several"):
        str(jaxlens.compile(capture, run=1))
