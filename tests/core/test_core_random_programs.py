"""Random programs: what must be equal is, on the core alone and against JAX.

`JAXLENS_PROGRAMS=5000` tries as many of each kind; by default a few, for every change.
"""

import os
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from jaxlens import core
from tests.support.core.models import CORE, JAX
from tests.support.core.random_programs import inputs, nests, programs, seeds, shapes, transformed

COUNT = int(os.environ.get("JAXLENS_PROGRAMS", "12"))
some = settings(
    max_examples=COUNT,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    derandomize="JAXLENS_PROGRAMS" not in os.environ,
)
pytestmark = pytest.mark.backend


@pytest.fixture(autouse=True)
def _wide() -> Any:
    with jax.enable_x64(True), core.enable_x64():
        yield


def close(ours: Any, theirs: Any, tolerance: float = 1e-9) -> None:
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def has(program: Any, step: str) -> bool:
    return any(name == step for name, _ in program.steps)


def exactness(program: Any, otherwise: float = 1e-9) -> float:
    """A step that goes through 32 bits leaves some 7 digits."""
    return 1e-6 if has(program, "half") else otherwise


@some
@given(programs, shapes, seeds)
def test_value_is_jax_s(program: Any, shape: Any, seed: int) -> None:
    x = inputs(shape, seed)
    close(program(CORE, core.array(x)), program(JAX, jax.numpy.array(x)))


@some
@given(programs, shapes, seeds)
def test_jit_changes_nothing(program: Any, shape: Any, seed: int) -> None:
    x = inputs(shape, seed)
    plain = program(CORE, core.array(x))
    close(core.jit(lambda v: program(CORE, v))(x), plain)


@some
@given(programs, shapes, seeds)
def test_vmap_is_a_loop(program: Any, shape: Any, seed: int) -> None:
    xs = inputs((3, *shape), seed)
    looped = np.stack([np.asarray(program(CORE, core.array(x))) for x in xs])
    close(core.vmap(lambda v: program(CORE, v))(xs), looped)


@some
@given(programs, shapes, seeds)
def test_forward_and_reverse_agree(program: Any, shape: Any, seed: int) -> None:
    x, t = inputs(shape, seed), inputs(shape, seed + 1)
    value, tangent = core.jvp(lambda v: program(CORE, v), (x,), (t,))
    again, back = core.vjp(lambda v: program(CORE, v), core.array(x))
    close(again, value)
    ct = inputs(np.shape(value), seed + 2)
    (found,) = back(ct)
    close(np.vdot(ct, tangent), np.vdot(found, t), exactness(program))


@some
@given(programs, shapes, seeds)
def test_derivative_is_the_limit(program: Any, shape: Any, seed: int) -> None:
    """Central differences; a program that has a corner within reach is another test's matter."""
    x, t, step = inputs(shape, seed), inputs(shape, seed + 1), 1e-6

    def f(v: Any) -> np.ndarray:
        return np.asarray(program(CORE, core.array(v)))

    tangent = np.asarray(core.jvp(lambda v: program(CORE, v), (x,), (t,))[1])
    wide = (f(x + step * t) - f(x - step * t)) / (2 * step)
    narrow = (f(x + step / 4 * t) - f(x - step / 4 * t)) / (step / 2)
    smooth = np.isclose(wide, narrow, rtol=1e-4, atol=1e-6)
    # The derivative of one is not the limit, the other takes steps of 32 bits.
    if not has(program, "stop") and not has(program, "half"):
        np.testing.assert_allclose(tangent[smooth], wide[smooth], rtol=1e-4, atol=1e-5)


@some
@given(programs, nests, shapes, seeds)
def test_nested_transforms_are_jax_s(program: Any, nest: Any, shape: Any, seed: int) -> None:
    x = inputs(shape, seed)
    ours = transformed(CORE, lambda v: program(CORE, v), nest)(core.array(x))
    theirs = transformed(JAX, lambda v: program(JAX, v), nest)(jax.numpy.array(x))
    close(ours, theirs, exactness(program, 1e-7))


@some
@given(programs, nests, shapes, seeds)
def test_written_down_it_is_well_typed(program: Any, nest: Any, shape: Any, seed: int) -> None:
    x = inputs(shape, seed)
    f = transformed(CORE, lambda v: program(CORE, v), nest)
    closed = core.make_jaxpr(f)(x)
    core.check_jaxpr(closed)
    (again,) = core.eval_jaxpr(closed.jaxpr, closed.consts, core.array(x))
    close(again, f(core.array(x)), exactness(program, 1e-7))
