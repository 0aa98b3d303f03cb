"""What watching costs: a call that JAX's caches serve, and a compile.

    python -m tests.bench.bench_watch

Medians of CPU time, the ways taken in turns, so that a busy machine slows all of them alike.
"""

import gc
import json
import time
from statistics import median

import jax
import jax.numpy as jnp
import numpy as np

import jaxlens

CALLS, ROUNDS, COMPILES = 20_000, 9, 25


def per_call(call, x):
    """Microseconds of one call."""
    begun = time.process_time()
    for _ in range(CALLS):
        call(x)
    return (time.process_time() - begun) / CALLS * 1e6


def calls():
    """Microseconds of a call that is served: bare, in a watched block, and wrapped."""
    f = jax.jit(lambda x: x + 1)
    x = jnp.ones(8)
    f(x).block_until_ready()
    wrapped = jaxlens.watch(f)
    found = {"bare": [], "in a watched block": [], "wrapped by watch": []}
    for _ in range(ROUNDS):
        wrapped.unwatch()
        found["bare"].append(per_call(f, x))
        with jaxlens.recompiles() as log:
            found["in a watched block"].append(per_call(f, x))
        assert log.log.calls == ()
        wrapped = jaxlens.watch(f)
        found["wrapped by watch"].append(per_call(wrapped, x))
    return {name: median(times) for name, times in found.items()}


def compile_some():
    """Traces, lowers and compiles as many small programs as there are shapes."""
    f = jax.jit(lambda x: jnp.tanh(jnp.where(x > 0, x, 0) @ x.T).sum())
    for n in range(1, COMPILES + 1):
        f(np.ones((n, 4), np.float32))


def compiles():
    """Milliseconds of a small compile, bare and watched; and of the answer."""
    found = {"bare": [], "watched": [], "the answer": []}
    compile_some()
    for _ in range(ROUNDS):
        for watched in (False, True):
            jax.clear_caches()
            gc.collect()
            begun = time.process_time()
            if watched:
                with jaxlens.recompiles() as log:
                    compile_some()
                assert log.compiles == COMPILES
            else:
                compile_some()
            spent = time.process_time() - begun
            found["watched" if watched else "bare"].append(spent / COMPILES * 1e3)
        begun = time.process_time()
        str(log)
        found["the answer"].append((time.process_time() - begun) * 1e3)
    return {name: median(times) for name, times in found.items()}


if __name__ == "__main__":
    print(json.dumps({"us per cached call": calls(), "ms per compile": compiles()}, indent=2))
