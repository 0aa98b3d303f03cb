"""What a sweep takes with one, two and four processes, beside compiling the points one by one.

    python -m tests.bench.bench_sweep

Each is a sweep of its own, from the start of its processes on.
"""

import json
import os
import time

import jax
import jax.numpy as jnp

import jaxlens

POINTS, LAYERS = 12, 24


def loss(w, x):
    for part in w:
        x = jnp.tanh(x @ part) + x
    return (x * x).sum()


W = [jax.ShapeDtypeStruct((64, 64), "float32")] * LAYERS
XS = [jax.ShapeDtypeStruct((8 * n, 64), "float32") for n in range(1, POINTS + 1)]


def main() -> None:
    """Prints the seconds of each way as JSON."""
    found = {"cores": os.cpu_count(), "points": POINTS}
    begun = time.perf_counter()
    for x in XS:
        jax.jit(jax.grad(loss)).lower(W, x).compile()
    found["jax alone, one by one"] = time.perf_counter() - begun
    for workers in (1, 2, 4):
        begun = time.perf_counter()
        answer = jaxlens.sweep(jax.grad(loss), W, over={"x": XS}, executor=workers)
        assert not answer.failed
        found[f"sweep, processes: {workers}"] = time.perf_counter() - begun
        compiled = sum(row.figures.compile for row in answer.rows)
        found[f"of that XLA, summed, processes: {workers}"] = compiled
    print(json.dumps({k: round(v, 2) for k, v in found.items()}, indent=2))


if __name__ == "__main__":
    main()
