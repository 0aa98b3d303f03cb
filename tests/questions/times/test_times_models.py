"""Equations of real programs, each call written out, counted as JAX counts them."""

import jax
import pytest
from jax._src.jaxpr_util import all_eqns

import jaxlens
from jaxlens.questions.times.equations import written_out
from tests.support.model_programs import LAYERS, MARKS, NAMES, program

pytestmark = [pytest.mark.backend, *MARKS]


@pytest.mark.parametrize("name", NAMES)
def test_equations_written_out_are_jaxs(name: str) -> None:
    f, args = program(name)
    traced = jax.jit(f).trace(*args)
    every = sum(1 for _ in all_eqns(traced.jaxpr.jaxpr, revisit_inner_jaxprs=True))
    counted, loops = written_out(jaxlens.capture(f, *args))
    assert counted.total == every
    assert sum(counted.own.values()) <= every  # those that no line of the user's made are in none
    for loop in loops:
        assert loop.count >= 4
        assert loop.block < every
    if name == "gpt_step":
        assert [loop.count for loop in loops] == [LAYERS, LAYERS]
        assert sum(loop.equations for loop in loops) > every / 2
    elif name == "diffrax_solve":
        # It rounds a time down a hundred times, in a loop of Python's.
        (loop,) = loops
        assert loop.count in (99, 100)
        assert loop.line.startswith("diffrax/_integrate.py:")
    else:
        assert not loops
