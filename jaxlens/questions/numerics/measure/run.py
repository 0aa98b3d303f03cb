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
    Shadow,
    ShadowedValue,
    as_function,
    is_float,
    ulps,
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
    shadow = Shadow(bodies(jaxpr))
    results = shadow.body(closed, list(map(ShadowedValue, args)))
    floats = [n for n, x in enumerate(results) if is_float(x.own) and str(x.own.dtype) in BITS]
    compiled = _compiled(jaxpr, closed.consts, args)
    differences = _differences(compiled, results)
    strict: tuple[ResultDifference, ...] = ()
    differs = None
    if any(one.unequal for one in differences):
        strict = _differences(_compiled(jaxpr, closed.consts, args, _EXCESS), results)
        differs = _first_difference(closed, args)
    rows = []
    for n in floats:
        result, dtype = results[n], str(results[n].own.dtype)
        exact = result.shadow()
        errors = (ulps(x, exact, dtype)[0] for x in (result.own, compiled[n]))
        rows.append(ResultRounding(n, result.maker, dtype, *errors))
    every = (tuple(shadow.executions), tuple(rows), shadow.dots, tuple(shadow.unknown))
    return NumericsRun(*every, differs, differences, strict)


def _differences(
    compiled: Sequence[Any], results: Sequence[ShadowedValue]
) -> tuple[ResultDifference, ...]:
    """Compares all results as compiled with those op by op."""
    pairs = zip(compiled, results, strict=True)
    return tuple(difference(n, a, b.own) for n, (a, b) in enumerate(pairs))


def difference(index: int, compiled: Any, own: Any) -> ResultDifference:
    """Compares two arrays of one type, element by element."""
    dtype = str(own.dtype)
    if not is_float(own):
        is_key = jnp.issubdtype(own.dtype, jax.dtypes.prng_key)
        a, b = (np.asarray(jax.random.key_data(x) if is_key else x) for x in (compiled, own))
        return ResultDifference(index, dtype, own.size, int(np.count_nonzero(a != b)), None)
    a, b = (np.asarray(x).ravel() for x in (compiled, own))
    parts = 2 if np.iscomplexobj(a) else 1
    reals = [x.view(x.real.dtype) for x in (a, b)] if parts == 2 else [a, b]
    (x, y), (mine, its) = map(wide, reals), (x.view(f"u{x.dtype.itemsize}") for x in reals)
    unequal = (mine != its) & ~(np.isnan(x) & np.isnan(y))
    # The numbers of a type have consecutive integers as bits, but for the sign.
    sign = np.array(1 << (8 * mine.itemsize - 1), mine.dtype)
    sizes = [
        np.where(np.signbit(v), n & ~sign, n).astype(np.int64) for v, n in ((x, mine), (y, its))
    ]
    apart = np.abs(sizes[0] - sizes[1]).astype(np.float64)
    sums = sizes[0].astype(np.float64) + sizes[1]
    away = np.where(np.signbit(x) == np.signbit(y), apart, sums)
    away = np.where(np.isfinite(x) & np.isfinite(y), away, np.inf)
    return ResultDifference(
        index,
        dtype,
        own.size,
        int(np.count_nonzero(unequal.reshape(-1, parts).any(1))),
        float(np.max(away, where=unequal, initial=0.0)),
        _largest(compiled, own),
        _largest(own),
    )


def _largest(x: Any, less: Any = 0.0) -> float:
    """Returns the largest finite absolute element, of a difference."""
    with np.errstate(invalid="ignore"):
        values = wide(x) - wide(np.asarray(less))
    return float(np.max(np.abs(values), where=np.isfinite(values), initial=0.0))


def _compiled(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], options: Any = None) -> Any:
    """Compiles and runs a jaxpr."""
    lowered = jax.jit(as_function(jaxpr, consts)).trace(*args).lower()
    return jax.block_until_ready(lowered.compile(options)(*args))  # type: ignore[no-untyped-call]


def _first_difference(closed: Any, args: Sequence[Any]) -> Path | None:
    """Halves the program until one equation is left up to which compiling changes the result."""
    jaxpr = opened(closed)
    # As a program that returns what each equation makes.
    every = jaxpr.replace(outvars=[var for eqn in jaxpr.eqns for var in eqn.outvars])
    every = compat.extend("core", "ClosedJaxpr")(every, closed.consts)
    known = bodies(opened(every))
    results = iter(Shadow(known, follow=False).body(every, list(map(ShadowedValue, args))))
    made = [list(islice(results, len(eqn.outvars))) for eqn in jaxpr.eqns]
    low, high = 0, len(made)  # the first `low` equations agree, the first `high` not

    def same(stop: int) -> bool:
        part = jaxpr.replace(eqns=jaxpr.eqns[:stop], outvars=jaxpr.eqns[stop - 1].outvars)
        compiled = _compiled(part, closed.consts, args)
        return not any(one.unequal for one in _differences(compiled, made[stop - 1]))

    # Alone, the last equation may agree: what else the program returns changes how it is compiled.
    if not made or ([*jaxpr.outvars] != [*jaxpr.eqns[-1].outvars] and same(high)):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if same(middle) else (low, middle)
    return (known[id(opened(every))].ids[high - 1],)
