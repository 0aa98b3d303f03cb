"""Runs a program with changes to the equations that made a NaN or an infinity, to try a cure."""

import functools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxlens import compat
from jaxlens.call import isolate
from jaxlens.ir.jaxpr.bodies import bodies, opened
from jaxlens.questions.nan.measure.nonfinite import FirstNonFinite, Unmeasured, is_inexact, run_of
from jaxlens.taps.evaluate import deepest
from jaxlens.taps.execute import CompiledPieces, execute
from jaxlens.taps.executions import NonFiniteRun, Path
from jaxlens.taps.refs import bind
from jaxlens.taps.shadow import Shadow, ShadowedValue, is_float

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
    change = functools.partial(_guarded, _softmaxes(closed))
    after, rows = execute(closed, probe, args, change, paths, compiled)
    run = run_of(closed, rows, args, after)
    if run.nan_results:  # no cure, so what else it changes does not matter
        return run, 0.0
    before, _ = execute(closed, Unmeasured(0, packed=True), args, compiled=compiled)
    pairs = [(a, b) for a, b in zip(before, after, strict=True) if is_inexact(a)]
    return run, max((_change(a, b) for a, b in pairs), default=0.0)


def widened(closed: Any, args: Sequence[Any]) -> tuple[NonFiniteRun, float] | None:
    """Runs a program op by op with every float in float64, and returns what `guarded` does.

    None if an equation cannot be evaluated so.
    """
    shadow = Shadow(bodies(opened(closed)))
    with isolate.untouched(isolate.context()), compat.persistent_cache_off():
        values = shadow.body(closed, [ShadowedValue(x) for x in args])
    if shadow.unknown:
        return None
    floats = {n: value for n, value in enumerate(values) if is_float(value.own)}
    exact = {n: value.shadow() for n, value in floats.items()}
    nan, inf = (
        tuple(n for n, x in exact.items() if test(x).any()) for test in (np.isnan, np.isinf)
    )
    change = max((_change(value.own, exact[n]) for n, value in floats.items()), default=0.0)
    return NonFiniteRun({}, {}, nan_results=nan, inf_results=inf), change


def _softmaxes(closed: Any) -> dict[int, tuple[int, ...]]:
    """Returns the axes over which each softmax sums, by the id of its exponential's equation."""
    found: dict[int, tuple[int, ...]] = {}
    for body in bodies(opened(closed)).values():
        makers = {id(var): eqn for eqn in body.jaxpr.eqns for var in eqn.outvars}

        def maker(atom: Any, makers: Mapping[int, Any] = makers) -> Any:
            eqn = makers.get(id(atom))
            while eqn is not None and eqn.primitive.name in ("broadcast_in_dim", "reshape"):
                eqn = makers.get(id(eqn.invars[0]))
            return eqn

        for eqn in body.jaxpr.eqns:
            if eqn.primitive.name != "div":
                continue
            above, below = map(maker, eqn.invars)
            if above is None or below is None or below.primitive.name != "reduce_sum":
                continue
            if maker(below.invars[0]) is above:
                found[id(above)] = below.params["axes"]
    return found


def _guarded(
    softmaxes: Mapping[int, tuple[int, ...]],
    eqn: Any,
    operands: Sequence[Any],
    results: Sequence[Any],
) -> Sequence[Any]:
    """Returns what an equation makes with the change that `GUARDS` describes."""
    name = eqn.primitive.name
    if name in _EXPONENTIALS:
        (x,) = operands
        axes = softmaxes.get(id(eqn), ()) if name != "expm1" else ()
        if axes:
            return bind(eqn, [x - jnp.max(x, axes, keepdims=True)])
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
