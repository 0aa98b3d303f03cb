"""Measured programs give the same results, and find the NaN that an evaluation op by op has."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens import compat
from jaxlens.ir.jaxpr.bodies import bodies, opened
from jaxlens.questions.nan.measure.guards import measure_guarded
from jaxlens.questions.nan.measure.nonfinite import measure_nonfinite, pieces
from jaxlens.taps.primitives import BODIES_MEASURED, MOVES
from tests.questions.nan import planted
from tests.support import programs

pytestmark = pytest.mark.reads_jax

LITERAL = compat.extend("core", "Literal")


def by_hand(closed, args):
    """Equations of the outermost body whose results have a NaN, evaluated op by op."""
    jaxpr = opened(closed)
    values = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    values.update(zip(jaxpr.invars, args, strict=True))
    found = set()
    for eqn, ident in zip(jaxpr.eqns, bodies(jaxpr)[id(jaxpr)].ids, strict=True):
        operands = [a.val if isinstance(a, LITERAL) else values[a] for a in eqn.invars]
        results = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(eqn.params))
        results = results if eqn.primitive.multiple_results else [results]
        values.update(zip(eqn.outvars, results, strict=True))
        floats = [r for r in results if jnp.issubdtype(r.dtype, jnp.inexact)]
        measured = eqn.primitive.name not in {*MOVES, *BODIES_MEASURED}
        if measured and any(np.isnan(np.asarray(r)).any() for r in floats):
            found.add(ident)
    return found


PROGRAMS = (
    "logarithm_of_negative zero_by_zero overflow_of_exp masked_row gradient_of_a_branch "
    "gradient_of_a_norm one_example_of_a_batch power_of_negative"
).split()


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_has_nan_is_that_of_an_evaluation_op_by_op(name):
    f, args, *_ = getattr(planted, name)()
    live = jaxlens.capture(f, *args).driver.live()
    with live.measuring("runs op by op") as (closed, leaves):
        expected = by_hand(closed, [jnp.asarray(x) for x in leaves])
    found = measure_nonfinite(live)
    assert {path[0] for path in found.nan.executions if len(path) == 1} == expected


@pytest.mark.parametrize("name", ["mlp_step", "scan_rnn", "while_cond", "attention"])
def test_results_are_those_of_the_program(name):
    from jaxlens.questions.nan.measure.nonfinite import FirstNonFinite
    from jaxlens.taps.execute import execute

    f, args = getattr(programs, name)()
    traced = jax.jit(f).trace(*args)
    probe = FirstNonFinite(packed=True)
    results, _ = execute(traced.jaxpr, probe, jax.tree.leaves(args))
    for mine, its in zip(results, jax.tree.leaves(jax.jit(f)(*args)), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-5)


def test_what_is_compiled_serves_the_next_run_but_not_where_an_equation_is_changed():
    def f(x):
        for n in range(40):
            x = jnp.sin(x) * (n + 1)
        return jnp.log(x - 1e9)

    live = jaxlens.capture(f, jnp.ones(3)).driver.live()
    found = measure_nonfinite(live)
    (path,) = found.nan.executions
    before = len(pieces(live).executables)
    assert measure_nonfinite(live) == found
    assert len(pieces(live).executables) == before
    changed, change = measure_guarded(live, [path])
    assert not changed.nan.results
    assert change == 0
    assert measure_nonfinite(live) == found
