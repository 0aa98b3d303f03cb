"""Runs a program op by op, in float64 beside it, and compiled, and compares the results."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlens import compat
from jaxlens.call import isolate
from jaxlens.ir.jaxpr.bodies import bodies, opened
from jaxlens.questions.numerics.measure.shadow import (
    ShadowedValue,
    ShadowInterpreter,
    as_function,
    is_float,
    largest_error,
    wide,
)
from jaxlens.questions.numerics.rounding import BITS, NumericsRun, ResultDifference, ResultRounding
from jaxlens.stages.session.running import Running
from jaxlens.taps.primitives import Path

_EXCESS = {"xla_allow_excess_precision": False}


def run_and_compare(live: Running) -> NumericsRun:
    """Runs a program op by op, in float64 and compiled, and returns the error of each equation.

    Raises:
        OptionError: An argument is a shape without data.
        UnavailableError: The program cannot run here, or has an `io_callback`.
    """
    with live.measuring("op by op, and in float64", "--numerics") as (closed, leaves):
        live.check_effects("--numerics runs the program in several ways")
        with isolate.untouched(isolate.context()), compat.persistent_cache_off():
            return _run(closed, [np.asarray(x) if np.isscalar(x) else x for x in leaves])


def _run(closed: Any, args: Sequence[Any]) -> NumericsRun:
    jaxpr = opened(closed)
    shadow = ShadowInterpreter(bodies(jaxpr))
    results = shadow.evaluate_body(closed, list(map(ShadowedValue, args)))
    made = compiled(jaxpr, closed.consts, args)
    differences = _differences(made, results)
    strict: tuple[ResultDifference, ...] = ()
    differs = None
    if any(one.unequal for one in differences):
        strict = _differences(compiled(jaxpr, closed.consts, args, _EXCESS), results)
        differs = _first_difference(closed, args)
    rows = []
    for n, result in enumerate(results):
        if (dtype := str(result.value.dtype)) in BITS:
            exact = result.as_float64()
            errors = (largest_error(x, exact, dtype)[0] for x in (result.value, made[n]))
            rows.append(ResultRounding(n, result.maker, dtype, *errors))
    measured = tuple(shadow.executions), tuple(rows), shadow.dots, tuple(shadow.unknown)
    return NumericsRun(*measured, differs, differences, strict)


def _differences(
    compiled: Sequence[Any], results: Sequence[ShadowedValue]
) -> tuple[ResultDifference, ...]:
    """Compares all results as compiled with those op by op."""
    pairs = zip(compiled, results, strict=True)
    return tuple(difference(n, a, b.value) for n, (a, b) in enumerate(pairs))


def difference(index: int, compiled: Any, op_by_op: Any) -> ResultDifference:
    """Compares two arrays of one type, element by element."""
    dtype, elements = str(op_by_op.dtype), op_by_op.size
    if not is_float(op_by_op):
        is_key = jnp.issubdtype(op_by_op.dtype, jax.dtypes.prng_key)
        a, b = (np.asarray(jax.random.key_data(x) if is_key else x) for x in (compiled, op_by_op))
        return ResultDifference(index, dtype, elements, int(np.count_nonzero(a != b)), None)
    a, b = (np.asarray(x).ravel() for x in (compiled, op_by_op))
    parts = 2 if np.iscomplexobj(a) else 1
    reals = [x.view(x.real.dtype) for x in (a, b)]
    (x, y), bits = map(wide, reals), [x.view(f"u{x.dtype.itemsize}") for x in reals]
    unequal = (bits[0] != bits[1]) & ~(np.isnan(x) & np.isnan(y))
    # Without the sign, the bits of successive numbers of a type are successive integers.
    sign = np.array(1 << (8 * bits[0].itemsize - 1), bits[0].dtype)
    ranks = [
        np.where(np.signbit(v), n & ~sign, n).astype(np.int64)
        for v, n in zip((x, y), bits, strict=True)
    ]
    between = np.abs(ranks[0] - ranks[1]).astype(np.float64)
    over_zero = ranks[0].astype(np.float64) + ranks[1]
    steps = np.where(np.signbit(x) == np.signbit(y), between, over_zero)
    steps = np.where(np.isfinite(x) & np.isfinite(y), steps, np.inf)
    return ResultDifference(
        index,
        dtype,
        elements,
        int(np.count_nonzero(unequal.reshape(-1, parts).any(1))),
        float(np.max(steps, where=unequal, initial=0.0)),
        _largest(compiled, op_by_op),
        _largest(op_by_op),
    )


def _largest(x: Any, subtracted: Any = 0.0) -> float:
    """Returns the largest finite absolute element of `x - subtracted`."""
    with np.errstate(invalid="ignore"):
        values = wide(x) - wide(np.asarray(subtracted))
    return float(np.max(np.abs(values), where=np.isfinite(values), initial=0.0))


def compiled(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], options: Any = None) -> Any:
    """Compiles and runs a jaxpr."""
    lowered = jax.jit(as_function(jaxpr, consts)).trace(*args).lower()
    return jax.block_until_ready(lowered.compile(options)(*args))  # type: ignore[no-untyped-call]


def _first_difference(closed: Any, args: Sequence[Any]) -> Path | None:
    """Returns the first equation whose result compiling changes; None if unknown.

    Bisects the top-level equations for the shortest prefix whose compiled result differs, assuming
    that longer prefixes differ too.
    """
    jaxpr = opened(closed)
    # The same program, with the results of every equation as its outputs.
    every = jaxpr.replace(outvars=[var for eqn in jaxpr.eqns for var in eqn.outvars])
    every = compat.extend("core", "ClosedJaxpr")(every, closed.consts)
    known = bodies(opened(every))
    interpreter = ShadowInterpreter(known, follow=False)
    results = iter(interpreter.evaluate_body(every, list(map(ShadowedValue, args))))
    made = [list(islice(results, len(eqn.outvars))) for eqn in jaxpr.eqns]
    low, high = 0, len(made)  # the prefix of `low` equations agrees, that of `high` differs

    def same(stop: int) -> bool:
        part = jaxpr.replace(eqns=jaxpr.eqns[:stop], outvars=jaxpr.eqns[stop - 1].outvars)
        found = compiled(part, closed.consts, args)
        return not any(one.unequal for one in _differences(found, made[stop - 1]))

    # The last equation compiled as the only output may agree: outputs change fusion. Then the first
    # that differs is unknown.
    if not made or ([*jaxpr.outvars] != [*jaxpr.eqns[-1].outvars] and same(high)):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if same(middle) else (low, middle)
    return (known[id(opened(every))].ids[high - 1],)
