"""Runs a program with guards of the equations that made a NaN or an infinity, to try a cure."""

import functools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxlens.questions.nan.measure.nonfinite import (
    FirstNonFinite,
    nonfinite_run,
    pieces,
)
from jaxlens.questions.nan.records import NonFiniteRun
from jaxlens.stages.session.running import Running
from jaxlens.taps.execute import execute
from jaxlens.taps.primitives import Path
from jaxlens.taps.refs import bind, is_inexact

_EXPONENTIALS = {"exp": math.e, "exp2": 2.0, "expm1": math.e}  # and their bases
_ROOM = 8.0  # natural logarithm of how far from the overflow a bounded exponential stays


GUARDS: Mapping[str, str] = {
    **dict.fromkeys(("mul", "div"), "0 as the result of {} wherever an operand is 0"),
    **dict.fromkeys(("log", "sqrt", "rsqrt"), "jnp.maximum(x, tiny) as the operand of {}"),
    **dict.fromkeys(("acos", "asin"), "jnp.clip(x, -1, 1) as the operand of {}"),
    "pow": "0 as the result of {} wherever the base is 0",
    "select_n": "±1e30 in the place of infinity in {}",
    **dict.fromkeys(_EXPONENTIALS, "a bound below the overflow as the operand of {}"),
}
"""How `_guarded` tries a cure, by primitive, in words for the equations that are named."""


def _guarded(eqn: Any, operands: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
    name, (x, *_) = eqn.primitive.name, operands
    limits: Any = jnp.finfo(results[0].dtype)  # type: ignore[no-untyped-call]
    match name:
        case "mul" | "div" | "pow":
            read = operands[: 1 if name == "pow" else 2]
            zero = (jnp.asarray(x == 0) for x in read if is_inexact(x))
            any_zero = functools.reduce(jnp.logical_or, zero)
            return [jnp.where(any_zero, jnp.zeros_like(y), y) for y in results]
        case "select_n":
            large = min(1e30, float(limits.max) / 2)
            return [
                jnp.where(jnp.isinf(y), jnp.sign(y) * large, y).astype(y.dtype) for y in results
            ]
        case "log" | "sqrt" | "rsqrt":
            changed = jnp.maximum(x, limits.tiny)
        case "acos" | "asin":
            changed = jnp.clip(x, -1, 1)
        case _:
            most = math.log(float(limits.max)) - _ROOM
            changed = jnp.minimum(x, most / math.log(_EXPONENTIALS[name]))
    return bind(eqn, [changed])


def measure_guarded(live: Running, paths: Collection[Path]) -> tuple[NonFiniteRun, float | None]:
    """Runs the program with equations guarded; if no NaN remains, once more without guards.

    Returns:
        Which equations have NaN and infinities with guards, and the largest change of an element of
        a result that is finite without; None if a NaN remains, and nothing is compared.
    """
    with live.measuring("tries a cure") as (closed, args):
        probe = FirstNonFinite(packed=live.devices == 1)
        after, rows = execute(closed, probe, args, _guarded, paths, pieces(live))
        run = nonfinite_run(closed, rows, args, after)
        if run.nan.results:
            return run, None
        before, _ = execute(closed, probe, args, compiled=pieces(live))
    pairs = [(a, b) for a, b in zip(before, after, strict=True) if is_inexact(a)]
    return run, max((_largest_change(a, b) for a, b in pairs), default=0.0)


def _largest_change(before: Any, after: Any) -> float:
    a, b = (np.asarray(x, np.complex128) for x in (before, after))
    both = np.isfinite(a) & np.isfinite(b)
    return float(np.abs(a[both] - b[both]).max(initial=0.0))
