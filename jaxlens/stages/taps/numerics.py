"""Runs a program op by op, in float64 beside it, and compiled, and compares the results."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlens.ir.jaxpr.bodies import bodies, opened
from jaxlens.ir.run.nonfinite import Path
from jaxlens.ir.run.numerics import BITS, NumericsRun, ResultRounding
from jaxlens.stages import compat
from jaxlens.stages.call import isolate
from jaxlens.stages.taps.shadow import BF16, TF32, Shadow, ShadowedValue, bind, is_float, ulps, wide

_EXCESS = {"xla_allow_excess_precision": False}
_LITERAL = compat.extend("core", "Literal")


def run(closed: Any, args: Sequence[Any]) -> NumericsRun:
    """Runs a program op by op, in float64, compiled, and with products rounded.

    Args:
        closed: A closed jaxpr of JAX's.
        args: Its arguments, none of which is donated.
    """
    with isolate.untouched(isolate.context()), compat.persistent_cache_off():
        return _run(closed, [np.asarray(x) if np.isscalar(x) else x for x in args])


def _run(closed: Any, args: Sequence[Any]) -> NumericsRun:
    known = bodies(opened(closed))
    values = [ShadowedValue(x) for x in args]
    shadow = Shadow(known)
    results = shadow.body(closed, values)
    floats = [n for n, x in enumerate(results) if is_float(x.own) and str(x.own.dtype) in BITS]
    compiled = _compiled(closed, args)
    differences = _differences(compiled, results, floats)
    strict: list[float] = []
    differs, compiles = None, 0
    if any(differences):
        strict = _differences(_compiled(closed, args, _EXCESS), results, floats)
        differs, compiles = _first_difference(closed, args, known)
    rounded = [
        Shadow(known, follow=False, mantissa=mantissa).body(closed, values)
        for mantissa in (TF32, BF16)
        if shadow.dots
    ]
    rows = []
    for place, n in enumerate(floats):
        result, dtype = results[n], str(results[n].own.dtype)
        exact = result.shadow()
        tf32_bf16: list[float | None] = [ulps(each[n].own, exact, dtype)[0] for each in rounded]
        tf32_bf16 = tf32_bf16 or [None, None]
        rows.append(
            ResultRounding(
                n,
                result.maker,
                dtype,
                ulps(result.own, exact, dtype)[0],
                ulps(compiled[n], exact, dtype)[0],
                differences[place],
                _largest(compiled[n], result.own),
                _largest(result.own),
                strict[place] if strict else None,
                *tf32_bf16,
            )
        )
    every = (tuple(shadow.executions), tuple(rows), shadow.dots, tuple(shadow.unknown))
    return NumericsRun(*every, differs, compiles)


def _differences(
    compiled: Sequence[Any], results: Sequence[ShadowedValue], floats: Sequence[int]
) -> list[float]:
    """Returns how far compiled results are from those op by op, in ulps."""
    values = [(compiled[n], results[n].own) for n in floats]
    return [ulps(a, wide(b), str(b.dtype), zero=False)[0] for a, b in values]


def _largest(x: Any, less: Any = 0.0) -> float:
    """Returns the largest finite absolute element, of a difference."""
    with np.errstate(invalid="ignore"):
        values = wide(x) - wide(np.asarray(less))
    return float(np.max(np.abs(values), where=np.isfinite(values), initial=0.0))


def _compiled(
    closed: Any, args: Sequence[Any], options: Any = None, stop: int | None = None
) -> Any:
    """Compiles and runs a program; with `stop` up to that equation, whose results it returns."""
    jaxpr = opened(closed)

    def function(*args: Any) -> list[Any]:
        values = dict(zip(map(id, jaxpr.constvars), closed.consts, strict=True))
        values.update(zip(map(id, jaxpr.invars), args, strict=True))

        def value(atom: Any) -> Any:
            return atom.val if isinstance(atom, _LITERAL) else values[id(atom)]

        for eqn in jaxpr.eqns[:stop]:
            results = bind(eqn, [value(atom) for atom in eqn.invars])
            values.update(zip(map(id, eqn.outvars), results, strict=True))
        atoms = jaxpr.outvars if stop is None else jaxpr.eqns[stop - 1].outvars
        return [value(atom) for atom in atoms]

    lowered = jax.jit(function).trace(*args).lower()
    return jax.block_until_ready(lowered.compile(options)(*args))  # type: ignore[no-untyped-call]


def _first_difference(closed: Any, args: Sequence[Any], known: Any) -> tuple[Path | None, int]:
    """Halves the program until one equation is left up to which compiling changes the result."""
    made: list[tuple[Path, Sequence[ShadowedValue]]] = []
    Shadow(known, follow=False).body(
        closed, [ShadowedValue(x) for x in args], each=lambda *one: made.append(one)
    )
    low, high, compiles = 0, len(made), 0  # the first `low` equations agree, the first `high` not
    while high - low > 1:
        middle = (low + high) // 2
        own = made[middle - 1][1]
        compiled = _compiled(closed, args, stop=middle)
        compiles += 1
        same = all(
            np.array_equal(np.asarray(a), np.asarray(b.own), equal_nan=is_float(b.own))
            for a, b in zip(compiled, own, strict=True)
            if not jnp.issubdtype(b.own.dtype, jax.dtypes.prng_key)
        )
        low, high = (middle, high) if same else (low, middle)
    return (made[high - 1][0] if made else None), compiles
