"""What watching costs: a call that JAX's caches serve, a compile, and under %jaxlens on a cell.

    python -m tests.bench.bench_watch

Medians of CPU time, the ways taken in turns, so that a busy machine slows all of them alike.
"""

import gc
import json
import time
from itertools import count
from statistics import median

import jax
import jax.numpy as jnp
import numpy as np
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import jaxlens
from jaxlens.questions.session.verbs import SessionWatch

CALLS, ROUNDS, COMPILES = 20_000, 9, 25
NUMBERS = count(9)  # for functions that were not compiled


def per_call(call, x):
    """Microseconds of one call."""
    begun = time.process_time()
    for _ in range(CALLS):
        call(x)
    return (time.process_time() - begun) / CALLS * 1e6


def calls():
    """Microseconds of a call that is served: bare, in a watched block, in a watched session."""
    f = jax.jit(lambda x: x + 1)
    x = jnp.ones(8)
    f(x).block_until_ready()
    found = {"bare": [], "in a watched block": [], "%jaxlens on": []}
    for _ in range(ROUNDS):
        found["bare"].append(per_call(f, x))
        with jaxlens.recompiles() as log:
            found["in a watched block"].append(per_call(f, x))
        assert log.log.calls == ()
        session = SessionWatch()
        found["%jaxlens on"].append(per_call(f, x))
        assert not session.cell_done().compiles
        session.stop()
    return {name: median(times) for name, times in found.items()}


def compile_some():
    """Traces, lowers and compiles as many small programs as there are shapes."""
    f = jax.jit(lambda x: jnp.tanh(jnp.where(x > 0, x, 0) @ x.T).sum())
    for n in range(1, COMPILES + 1):
        f(np.ones((n, 4), np.float32))


def compiles():
    """Milliseconds of a small compile, bare and watched; and of the answer."""
    found = {"bare": [], "watched": [], "%jaxlens on": [], "the answer": []}
    compile_some()
    for _ in range(ROUNDS):
        for way in ("bare", "watched", "%jaxlens on"):
            jax.clear_caches()
            gc.collect()
            begun = time.process_time()
            if way == "watched":
                with jaxlens.recompiles() as log:
                    compile_some()
                assert log.compiles == COMPILES
            elif way == "bare":
                compile_some()
            else:
                session = SessionWatch()
                compile_some()
                assert len(session.cell_done().compiles) == COMPILES
                session.stop()
            found[way].append((time.process_time() - begun) / COMPILES * 1e3)
        begun = time.process_time()
        str(log)
        found["the answer"].append((time.process_time() - begun) * 1e3)
    return {name: median(times) for name, times in found.items()}


def cells():
    """Milliseconds of cells in IPython, with %jaxlens off and on, in the user's thread.

    The threads in which XLA compiles take more, and vary more, than what is measured here.
    """
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    shell.run_cell("%load_ext jaxlens\nimport jax, numpy as np\nf = jax.jit(lambda x: x + 1)")
    shell.run_cell("keep = [jax.device_put(np.ones(8)) for _ in range(2_000)]\nx = keep[0]; f(x)")
    codes = {"1 + 1": 100, "a call that is served": 100, "a small compile": 10}
    found = {f"{code}, {way}": [] for code in codes for way in ("off", "on")}
    with capture_output():
        for _round in range(ROUNDS):
            for way in ("off", "on"):
                shell.run_cell(f"%jaxlens {way}")
                for code, n in codes.items():
                    text = {"1 + 1": "1 + 1", "a call that is served": "f(x);"}.get(code)
                    begun = time.thread_time()
                    for _ in range(n):
                        shell.run_cell(text or f"jax.jit(lambda x: x * {next(NUMBERS)})(x);")
                    found[f"{code}, {way}"].append((time.thread_time() - begun) / n * 1e3)
    return {name: median(times) for name, times in found.items()}


def large_compile():
    """Seconds of a compile of some 1,200 equations, %jaxlens off and on."""

    def loss(ws, x):
        for w in ws:
            x = jnp.tanh(x @ w) + jnp.where(x > 0, x, 0.1 * x)
        return x.mean()

    ws, x = [jnp.ones((32, 32))] * 60, jnp.ones((8, 32))
    found = {"off": [], "on": []}
    for _ in range(3):
        for way, times in found.items():
            step = jax.jit(jax.grad(lambda ws, x: loss(ws, x)))
            session = SessionWatch() if way == "on" else None
            begun = time.process_time()
            step(ws, x)
            if session is not None:
                assert session.cell_done().compiles
                session.stop()
            times.append(time.process_time() - begun)
    return {way: median(times) for way, times in found.items()}


if __name__ == "__main__":
    measured = {
        "us per cached call": calls(),
        "ms per compile": compiles(),
        "ms per cell": cells(),
        "s per compile of a large program": large_compile(),
    }
    print(json.dumps(measured, indent=2))
