"""What a recording costs: a call that JAX's caches serve, compiles, and memory.

    python -m tests.bench.bench_record

Medians of CPU time, the ways taken in turns, so that a busy machine slows all of them alike: of the
whole process, with the recording's thread, and of the job's own thread, which waits for what is
done in it. A job compiles for a part of its time only: the last shares are those of a job of a
minute that compiles such a train step twice.
"""

import gc
import json
import resource
import shutil
import tempfile
import time
from statistics import median

import jax
import jax.numpy as jnp
import numpy as np

import jaxlens

CALLS, ROUNDS, COMPILES, LAYERS = 20_000, 5, 25, 8
MINUTE = 60.0


def spent(work):
    """CPU seconds of a call: of the process, and of its own thread."""
    gc.collect()
    begun = time.process_time(), time.thread_time()
    work()
    return time.process_time() - begun[0], time.thread_time() - begun[1]


def in_turns(work):
    """Medians of CPU seconds, bare and recorded, of the process and of the job's thread.

    `work` is called afresh each time.
    """
    found = {"bare": [], "recorded": []}
    for _ in range(ROUNDS):
        jax.clear_caches()
        found["bare"].append(spent(work))
        jax.clear_caches()
        folder = tempfile.mkdtemp()

        def recorded(folder=folder):
            with jaxlens.record(folder):
                work()

        found["recorded"].append(spent(recorded))
        shutil.rmtree(folder)
    return [{k: median(times) for k, times in pairs.items()} for pairs in apart(found)]


def apart(found):
    """The process's times, and the thread's."""
    return [{k: [pair[n] for pair in pairs] for k, pairs in found.items()} for n in range(2)]


def calls():
    """Microseconds of a call that is served."""
    f = jax.jit(lambda x: x + 1)
    x = jnp.ones(8)
    f(x).block_until_ready()

    def many():
        for _ in range(CALLS):
            f(x)

    found = {"bare": [], "recorded": []}
    for _ in range(ROUNDS):
        found["bare"].append(spent(many)[0] / CALLS * 1e6)
        with tempfile.TemporaryDirectory() as folder, jaxlens.record(folder):
            found["recorded"].append(spent(many)[0] / CALLS * 1e6)
    return {name: median(times) for name, times in found.items()}


def compile_some():
    """Compiles as many small programs as there are shapes."""
    f = jax.jit(lambda x: jnp.tanh(jnp.where(x > 0, x, 0) @ x.T).sum())
    for n in range(1, COMPILES + 1):
        f(np.ones((n, 4), np.float32))


def train_step():
    """Compiles a train step of some thousand equations."""

    def block(p, x):
        h = jax.nn.gelu(x @ p["a"]) @ p["b"]
        scores = jax.nn.softmax((x @ p["q"]) @ (x @ p["k"]).swapaxes(-1, -2))
        return x + h + scores @ (x @ p["v"])

    def loss(params, x):
        for p in params:
            x = block(p, x)
        return (x**2).mean()

    @jax.jit
    def step(params, first, second, x):
        value, grads = jax.value_and_grad(loss)(params, x)

        def adam(p, g, m, v):
            m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
            return p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), m, v

        return value, jax.tree.map(adam, params, grads, first, second)

    shapes = {"a": (32, 64), "b": (64, 32), "q": (32, 32), "k": (32, 32), "v": (32, 32)}
    params = [{k: np.ones(s, np.float32) for k, s in shapes.items()} for _ in range(LAYERS)]
    step.lower(params, params, params, np.ones((2, 8, 32), np.float32)).compile()


def peak():
    """Most resident memory of the process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main():
    """Prints the figures."""
    train_step()
    compile_some()
    before = peak()
    steps, smalls = in_turns(train_step), in_turns(compile_some)
    added = [2 * (one["recorded"] - one["bare"]) / MINUTE * 100 for one in steps]
    small = [{k: v / COMPILES * 1e3 for k, v in one.items()} for one in smalls]
    figures = {
        "us per cached call": calls(),
        "ms per small compile": small[0],
        "ms per small compile in the job's thread": small[1],
        "s per compile of a train step": steps[0],
        "s per compile of a train step in the job's thread": steps[1],
        "% of a minute with two such compiles": added[0],
        "% of it in the job's thread": added[1],
        "MB more at most": peak() - before,
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
