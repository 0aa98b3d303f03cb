"""What jaxlens.core costs beside JAX, as ratios in one run.

    python -m tests.bench.bench_core [--rounds 9] [--only trace|run|dispatch|cache]

Tracing is that of a new function each time, as a user's is when it is written; JAX has then
traced the functions of its own `jax.numpy` before and remembers them. A run is a step of training
on arrays that are on the device already. A cached call does next to nothing on the device, so that
what is left is finding and starting the program.
"""

from itertools import pairwise

import jax
import numpy as np

from jaxlens import core
from tests.bench.turns import options, ratio
from tests.support.core import models
from tests.support.core.models import CORE, JAX


def placed(lib, tree):
    return jax.device_put(tree) if lib is JAX else core.device_put(tree)


# ---- programs -----------------------------------------------------------------------------------


def straight(lib, length):
    """A function of `length` equations, one after another."""

    def line(x):
        for _ in range(length // 2):
            x = lib.np.sin(x * 0.5)
        return x

    return lib.jit(line)


def perceptron(*widths):
    weights = models.normals(*pairwise(widths))
    return [{"w": w, "b": np.zeros(w.shape[1], np.float32)} for w in weights]


def steps(big):
    """Names, makers of a jitted step for a library, and arguments."""
    draw = np.random.default_rng(0)
    n, wide = (512, 512) if big else (32, 64)
    x, labels = draw.normal(size=(n, 64)).astype(np.float32), draw.integers(0, 10, n)
    labels = labels.astype(np.int32)
    network = perceptron(64, wide, wide, 10)
    yield "MLP step", lambda lib: models.classifier_step(lib, models.mlp), (network, x, labels)
    args = models.cnn_params(), x, labels
    yield "CNN step", lambda lib: models.classifier_step(lib, models.cnn), args
    width, length = (128, 64) if big else (16, 8)
    params = models.transformer_params(4, width, 64)
    tokens = draw.integers(0, 64, (8, length + 1)).astype(np.int32)
    yield "transformer step, 4 layers", models.transformer_step, (params, tokens)
    sequences = draw.normal(size=(64 if big else 8, 50, 4)).astype(np.float32)
    width = 128 if big else 16
    yield "RNN step (scan)", models.rnn_step, (models.rnn_params(width), sequences)
    path = np.zeros((500 if big else 20, 2), np.float32)
    yield "neural ODE step", models.ode_step, (models.ode_params(), np.ones(2, np.float32), path)


def trace(rounds):
    for name, make, args in steps(big=False):
        ratio(
            f"trace: {name}",
            lambda make=make, args=args: make(CORE).trace(*args),
            lambda make=make, args=args: make(JAX).trace(*args),
            rounds,
        )
    x = np.ones(3, np.float32)
    ratio(
        "trace: 1,000 equations in a line",
        lambda: straight(CORE, 1000).trace(x),
        lambda: straight(JAX, 1000).trace(x),
        rounds,
    )


def run(rounds):
    for name, make, args in steps(big=True):
        sides = []
        for lib in (CORE, JAX):
            step, placed_args = make(lib), placed(lib, args)

            def task(step=step, placed_args=placed_args):
                step(*placed_args)[1].block_until_ready()

            task()
            sides.append(task)
        ratio(f"run: {name}", *sides, rounds=3 * rounds, calls=10)


def dispatch(rounds):
    for leaves in (1, 8, 50):
        sides = []
        for lib in (CORE, JAX):
            double = lib.jit(lambda xs: [x * 2 for x in xs])
            xs = placed(lib, [np.full(4, i, np.float32) for i in range(leaves)])
            double(xs)
            sides.append(lambda double=double, xs=xs: double(xs))
        ratio(f"cached call: {leaves} leaves", *sides, rounds=rounds, calls=300)
    x, y = (placed(lib, np.ones(4, np.float32)) for lib in (CORE, JAX))
    ratio("cached operation: x * 2", lambda: x * 2, lambda: y * 2, rounds, 300)


def cache(rounds):
    """The cost of a cached call when its function has many programs beside it."""
    x = placed(CORE, np.ones(4, np.float32))
    alone = core.jit(lambda x, n: x, static_argnums=1)
    alone(x, 0)
    for entries in (100, 10_000):
        many = core.jit(lambda x, n: x, static_argnums=1)
        for n in range(entries):
            many.trace(x, n)
        many(x, 0)
        assert many.cache_info().entries == entries
        ratio(
            f"{entries:,} entries (beside 1)",
            lambda many=many: many(x, 0),
            lambda: alone(x, 0),
            rounds,
            300,
        )


def main():
    given = options(__doc__, rounds=9, only="")
    print("core, JAX, core / JAX")
    for part in (trace, run, dispatch, cache):
        if given.only in part.__name__:
            part(given.rounds)


if __name__ == "__main__":
    main()
