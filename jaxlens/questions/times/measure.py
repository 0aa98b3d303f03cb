"""Measures a program with its unrolled loops as `lax.scan` beside the program as it is."""

import itertools
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlens import compat
from jaxlens.call import isolate
from jaxlens.errors import UnavailableError
from jaxlens.ir.driver import Loop
from jaxlens.ir.facts import Trial, TrialSide
from jaxlens.ir.jaxpr.bodies import bodies, opened
from jaxlens.stages.compile.interruptible import interruptible
from jaxlens.stages.session.running import Running
from jaxlens.taps.rolled_loops import inputs_of, plan_of, rolled_body

_KEY: Any = jax.dtypes.prng_key
_INSTRUCTION = re.compile(r"^ +(?:ROOT )?%?[\w.\-]+ = ", re.MULTILINE)
_number = itertools.count(100_000)


def rolled(live: Running, region: str, loops: Sequence[Loop], run: bool) -> Trial:
    """Compares a program with one whose unrolled loops are scans; both are compiled.

    Args:
        live: The driver of the program.
        region: The name of the jaxpr body that contains the loops.
        loops: The loops in order, each as (first eqn, eqns per iteration, iterations).
        run: Execute both on random inputs, and compare the results.

    Raises:
        UnavailableError: jaxlens cannot rewrite a loop as a scan.
    """
    if live.staging.by_core:
        raise UnavailableError("programs of jaxlens.core are not tried: compile one by JAX")
    target = live.staging.place.target
    if target.absent or target.devices > 1 or target.platform != jax.default_backend():
        raise UnavailableError(
            "a trial is compiled for one device, where JAX runs by default; "
            "look at the call without --target"
        )
    if run:
        live.check_effects("both programs would run on random inputs")
    return trial(live.staging.traced.jaxpr, region, loops, run)


def trial(jaxpr: Any, region: str, loops: Sequence[Loop], run: bool) -> Trial:
    """Traces, lowers and compiles a body unchanged, and with its loops as scans.

    Args:
        jaxpr: A JAX jaxpr.
        region: The body's name, as in `ir.jaxpr.reader.read`.
        loops: Its loops, in order, not nested.
        run: Execute both on random inputs, and compare the results.

    Raises:
        UnavailableError: jaxlens cannot rewrite a loop as a scan; says why.
    """
    body = next((b.jaxpr for b in bodies(opened(jaxpr)).values() if b.name == region), None)
    if body is None:
        raise UnavailableError(f"there is no body {region!r} in this program")
    plans = [plan_of(body, span) for span in loops]
    abstract: Any = jax.ShapeDtypeStruct
    inputs = [abstract(v.aval.shape, v.aval.dtype) for v in inputs_of(body)]
    context = isolate.context()
    results = []
    for function in (rolled_body(body, ()), rolled_body(body, plans)):
        with isolate.untouched(context):
            results.append(_measured(function, inputs))
    (before, after), compiled = zip(*results, strict=True)
    return Trial(region, before, after, _difference(compiled, inputs) if run else None)


def _measured(function: Callable[..., Any], inputs: Sequence[Any]) -> tuple[TrialSide, Any]:
    """Traces, lowers and compiles a function; returns sizes and seconds, and the executable."""
    start = time.perf_counter()
    traced = jax.jit(function).trace(*inputs)
    traced_at = time.perf_counter()
    lowered = traced.lower()
    lowered_at = time.perf_counter()
    text = str(lowered.compiler_ir("stablehlo").operation.get_asm(large_elements_limit=16))
    begun = time.perf_counter()
    with compat.persistent_cache_off():
        # An option without effect, new each time, so that in-memory caches never hit.
        options = {"xla_dump_max_hlo_modules": next(_number)}
        executable = interruptible(lambda _: lowered.compile(compiler_options=options))
    seconds = time.perf_counter() - begun
    side = TrialSide(
        equations=written_out(traced.jaxpr),
        characters=len(text),
        trace=traced_at - start,
        lower=lowered_at - traced_at,
        compile=seconds,
        instructions=len(_INSTRUCTION.findall(executable.as_text() or "")),
    )
    return side, executable


def written_out(jaxpr: Any) -> int:
    """Counts the eqns of a program with every call inlined, and loop bodies once."""
    return sum(len(body.jaxpr.eqns) * body.times for body in bodies(opened(jaxpr)).values())


def _difference(compiled: Sequence[Any], inputs: Sequence[Any]) -> float:
    """Returns the largest relative difference between the programs' results on random inputs."""
    values = [_random(n, like) for n, like in enumerate(inputs)]
    before, after = (executable(*values) for executable in compiled)
    return max(map(_relative_difference, before, after), default=0.0)


def _random(seed: int, like: Any) -> Any:
    if jnp.issubdtype(like.dtype, _KEY):
        key = jax.random.key(seed)
        return jax.random.split(key, like.shape) if like.shape else key
    numbers = np.random.default_rng(seed)
    if jnp.issubdtype(like.dtype, jnp.inexact):
        return jnp.asarray(0.5 * numbers.standard_normal(like.shape), like.dtype)
    return jnp.asarray(numbers.integers(0, 2, like.shape), like.dtype)


def _relative_difference(before: Any, after: Any) -> float:
    if jnp.issubdtype(before.dtype, _KEY):
        before, after = jax.random.key_data(before), jax.random.key_data(after)
    a, b = np.asarray(before, np.complex128).ravel(), np.asarray(after, np.complex128).ravel()
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    scale = max(float(np.max(np.abs(a[np.isfinite(a)]), initial=0.0)), 1e-30)
    return float(np.max(np.abs(a - b)[~same])) / scale
