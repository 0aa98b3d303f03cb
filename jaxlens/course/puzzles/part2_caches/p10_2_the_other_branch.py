"""Puzzle 10.2."""

from itertools import count
from typing import Any

import jaxlens
from jaxlens.course.puzzle import (
    Fact,
    Facts,
    Function,
    Proof,
    Puzzle,
    WrongAnswer,
    as_program,
    close,
    equal,
)

_SIZES = count(4)  # every check has a size of its own, which no earlier one compiled for


def check(net: Function) -> Facts:
    import numpy as np

    x = np.linspace(0, 1, next(_SIZES), dtype=np.float32)
    with jaxlens.recompiles() as log:
        results = [net(x, train=train) for train in (True, False, True)]
    for train, result in zip((True, False), results, strict=False):
        yield close(f"net(x, train={train})", result, np.cos(x) if train else x)

    for train, right in ((True, np.cos(x + 1)), (False, x + 1)):
        found = as_program(lambda x, train=train: net(x, train=train), x + 1)
        yield close(f"net(x + 1, train={train}) in a program", found, right)

    def serve(x: Any) -> Any:
        return net(x, train=False)

    primitives = jaxlens.receipt(serve, x).primitives
    hint = "Data cannot choose what is in the program: both sides are, whichever runs."
    if log.compiles > 1:
        hint = "`train` is static, and yet both sides are computed: choose with Python's own `if`."
    proof = Proof(jaxlens.jaxpr, (serve, x))
    curves = primitives.get("cos", 0) + primitives.get("sin", 0)
    yield equal("sines and cosines with train=False", curves, 0, hint=hint, evidence=proof)
    hint = "One program for each of the two values; the third call must find the first."
    if not log.compiles:
        hint = "Nothing was jitted: keep `jax.jit`."
    few, found = log.compiles in (1, 2), str(log.compiles)
    yield Fact("compiles", "1 or 2", found, few, hint, lambda: log)


PUZZLE = Puzzle(
    id="10.2",
    title="The other branch",
    task="""\
A model computes a cosine while it trains, and nothing when it serves. As `train` is data here, the
program has the cosine in both cases. Change `net` so that with `train=False` there is **no cosine**
in the program; each of the two values may compile once.
""",
    starter="""\
@jax.jit
def net(x, train):
    return jnp.where(train, jnp.cos(x), x)
""",
    solution="""\
from functools import partial


@partial(jax.jit, static_argnames="train")
def net(x, train):
    return jnp.cos(x) if train else x
""",
    wrong=(
        WrongAnswer(
            "@jax.jit\ndef net(x, train):\n    return lax.cond(train, jnp.cos, lambda x: x, x)\n",
            "both sides are, whichever runs",
        ),
        WrongAnswer(
            """\
from functools import partial


@partial(jax.jit, static_argnames="train")
def net(x, train):
    return jnp.where(train, jnp.cos(x), x)
""",
            "choose with Python's own `if`",
        ),
        WrongAnswer(
            "@jax.jit\ndef net(x, train):\n    return jnp.cos(x) if train else x\n",
            "TracerBoolConversionError",
        ),
        WrongAnswer(
            """\
def net(x, train):
    return jax.jit(lambda x: jnp.cos(x))(x) if train else jax.jit(lambda x: x)(x)
""",
            "the third call must find the first",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
@jax.jit
def twice(x):
    return x, jnp.cos(x)


def net(x, train):
    return twice(x)[bool(train)]
""",
            "cosines with train=False",
        ),
    ),
    hints=(
        "`%jaxpr net(jnp.ones(4), train=False)` shows what is in the program.",
        "Python's `if` leaves a branch out if it knows the condition while tracing.",
        '`static_argnames="train"` lets Python know it: then `if train` works.',
    ),
    check=check,
    after="A program is made for the value of a static argument: what that excludes is not there.",
)
