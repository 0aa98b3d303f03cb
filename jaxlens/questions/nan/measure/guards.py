"""Runs a program with guards of the equations that made a NaN or an infinity, to try a cure."""

import functools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxlens.program.sentences import listed
from jaxlens.questions.nan.measure.nonfinite import (
    FirstNonFinite,
    nonfinite_run,
    pieces,
)
from jaxlens.questions.nan.records import NonFiniteRun
from jaxlens.stages.session.running import Running
from jaxlens.taps.evaluate import Change
from jaxlens.taps.execute import execute
from jaxlens.taps.primitives import Path
from jaxlens.taps.refs import bind, is_inexact

_EXPONENTIALS = {"exp": math.e, "exp2": 2.0, "expm1": math.e}  # and their bases
_ROOM = 8.0  # natural logarithm of how far from the overflow a bounded exponential stays


def _zero(eqn: Any, operands: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
    read = operands[: 1 if eqn.primitive.name == "pow" else 2]
    zero = [jnp.asarray(x == 0) for x in read if is_inexact(x)]
    any_zero = functools.reduce(jnp.logical_or, zero)
    return [jnp.where(any_zero, jnp.zeros_like(y), y) for y in results]


def _positive(eqn: Any, operands: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
    (x,) = operands
    tiny = jnp.finfo(x.dtype).tiny  # type: ignore[no-untyped-call]
    return bind(eqn, [jnp.maximum(x, tiny)])


def _clipped(eqn: Any, operands: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
    return bind(eqn, [jnp.clip(operands[0], -1, 1)])


def _large(eqn: Any, operands: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
    large = min(1e30, float(jnp.finfo(results[0].dtype).max) / 2)  # type: ignore[no-untyped-call]
    return [jnp.where(jnp.isinf(y), jnp.sign(y) * large, y).astype(y.dtype) for y in results]


def _bounded(eqn: Any, operands: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
    (x,) = operands
    most = math.log(float(jnp.finfo(x.dtype).max)) - _ROOM  # type: ignore[no-untyped-call]
    return bind(eqn, [jnp.minimum(x, most / math.log(_EXPONENTIALS[eqn.primitive.name]))])


GUARDS: Mapping[str, tuple[str, Change]] = {
    **dict.fromkeys(("mul", "div"), ("0 as the result of {} wherever an operand is 0", _zero)),
    **dict.fromkeys(
        ("log", "sqrt", "rsqrt"), ("jnp.maximum(x, tiny) as the operand of {}", _positive)
    ),
    **dict.fromkeys(("acos", "asin"), ("jnp.clip(x, -1, 1) as the operand of {}", _clipped)),
    "pow": ("0 as the result of {} wherever the base is 0", _zero),
    "select_n": ("±1e30 in the place of infinity in {}", _large),
    **dict.fromkeys(_EXPONENTIALS, ("a bound below the overflow as the operand of {}", _bounded)),
}
"""How a cure is tried, by primitive: in words for the equations that are named, and done."""


def described(opcodes: Mapping[Path, str]) -> str:
    """Returns how equations are guarded, in words; takes their primitives."""
    by: dict[str, list[str]] = {}
    for path, opcode in opcodes.items():
        by.setdefault(GUARDS[opcode][0], []).append(path[-1])
    return " and ".join(text.format(listed(ids)) for text, ids in by.items())


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


def _guarded(eqn: Any, operands: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
    _, guard = GUARDS[eqn.primitive.name]
    return guard(eqn, operands, results)


def _largest_change(before: Any, after: Any) -> float:
    a, b = (np.asarray(x, np.complex128) for x in (before, after))
    both = np.isfinite(a) & np.isfinite(b)
    return float(np.abs(a[both] - b[both]).max(initial=0.0))
