"""Runs a program with changes to the equations that made a NaN or an infinity, to try a cure."""

import functools
import math
from collections.abc import Collection, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxlens.questions.nan.measure.nonfinite import FirstNonFinite, Unmeasured, is_inexact, run_of
from jaxlens.taps.evaluate import deepest
from jaxlens.taps.execute import CompiledPieces, execute
from jaxlens.taps.executions import NonFiniteRun, Path
from jaxlens.taps.refs import bind

_EXPONENTIALS = {"exp": math.e, "exp2": 2.0, "expm1": math.e}  # and their bases
_ROOM = 8.0  # natural logarithm of how far from the overflow a bounded exponential stays


def guarded(
    closed: Any,
    args: Sequence[Any],
    devices: int,
    paths: Collection[Path],
    compiled: CompiledPieces | None = None,
) -> tuple[NonFiniteRun, float]:
    """Runs a program in which some equations are changed as `GUARDS` says.

    Returns:
        Which equations have NaN and infinities then, and the largest change of an element of a
        result that is finite without the change; 0 if a result has a NaN.
    """
    probe = FirstNonFinite(deepest(closed), packed=devices == 1)
    after, rows = execute(closed, probe, args, _guarded, paths, compiled)
    run = run_of(closed, rows, args, after)
    if run.nan_results:  # no cure, so what else it changes does not matter
        return run, 0.0
    before, _ = execute(closed, Unmeasured(0, packed=True), args, compiled=compiled)
    pairs = [(a, b) for a, b in zip(before, after, strict=True) if is_inexact(a)]
    return run, max((_change(a, b) for a, b in pairs), default=0.0)


def _guarded(eqn: Any, operands: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
    """Returns what an equation makes with the change that `GUARDS` describes."""
    name = eqn.primitive.name
    if name in _EXPONENTIALS:
        (x,) = operands
        most = math.log(float(jnp.finfo(x.dtype).max)) - _ROOM  # type: ignore[no-untyped-call]
        return bind(eqn, [jnp.minimum(x, most / math.log(_EXPONENTIALS[name]))])
    if name == "select_n":
        large = min(1e30, float(jnp.finfo(results[0].dtype).max) / 2)  # type: ignore[no-untyped-call]
        return [jnp.where(jnp.isinf(y), jnp.sign(y) * large, y).astype(y.dtype) for y in results]
    if name in ("log", "sqrt", "rsqrt"):
        (x,) = operands
        tiny = jnp.finfo(x.dtype).tiny  # type: ignore[no-untyped-call]
        return bind(eqn, [jnp.maximum(x, tiny)])
    if name in ("acos", "asin"):
        return bind(eqn, [jnp.clip(operands[0], -1, 1)])
    zero = [jnp.asarray(x == 0) for x in operands[: 1 if name == "pow" else 2] if is_inexact(x)]
    any_zero = functools.reduce(jnp.logical_or, zero)
    return [jnp.where(any_zero, jnp.zeros_like(y), y) for y in results]


def _change(before: Any, after: Any) -> float:
    a, b = (np.asarray(x, np.complex128) for x in (before, after))
    both = np.isfinite(a) & np.isfinite(b)
    return float(np.abs(a[both] - b[both]).max(initial=0.0))
