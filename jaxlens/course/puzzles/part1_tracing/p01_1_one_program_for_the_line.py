"""Puzzle 1.1."""

from itertools import count

import numpy as np

import jaxlens
from jaxlens.course.puzzle import (
    Facts,
    Function,
    Puzzle,
    WrongAnswer,
    as_program,
    at_most,
    close,
    equal,
)

_SIZES = count(37)  # JAX remembers a single operation by its shapes: these are new every time


def check(layer: Function) -> Facts:
    import jax.numpy as jnp

    n = next(_SIZES)
    random = np.random.default_rng(0)
    shapes = ((6, n), (n,), (4, 6))
    w, b, x = (jnp.asarray(random.normal(size=shape), np.float32) for shape in shapes)
    with jaxlens.recompiles() as log:
        result = layer(w, b, x)
    right = np.maximum(np.asarray(x) @ np.asarray(w) + np.asarray(b), 0)
    yield close("layer(w, b, x)", result, right, hint="The numbers must stay as they were.")
    programs = log.compiles + log.operations
    if programs:
        hint = "Each operation that runs outside of a jitted function is a program of its own."
    else:
        hint = "Nothing was compiled at all, so JAX did not do the work."
    yield equal("programs for one call", programs, 1, hint=hint, evidence=lambda: log)
    with jaxlens.recompiles() as again:
        layer(w, b, x)
    programs = again.compiles + again.operations
    hint = (
        "`jax.jit` made a new function in each call, and a new function has compiled nothing yet."
    )
    yield at_most("programs for the next call", programs, 0, hint=hint, evidence=lambda: again)
    hint = "A part of the work is done beside the program."
    found = as_program(layer, -w, b, x)
    right = np.maximum(np.asarray(b) - np.asarray(x) @ np.asarray(w), 0)
    yield close("layer(-w, b, x) in a program", found, right, hint=hint)


PUZZLE = Puzzle(
    id="1.1",
    title="One program for the line",
    task="""\
Called like this, every operation of the line is compiled and run as a program of its own. Change
the code so that the first call of `layer` compiles **one program**, and the next call **none**.
""",
    starter="""\
def layer(w, b, x):
    return jax.nn.relu(x @ w + b)
""",
    solution="""\
@jax.jit
def layer(w, b, x):
    return jax.nn.relu(x @ w + b)
""",
    wrong=(
        WrongAnswer(
            """\
def layer(w, b, x):
    return jax.jit(jax.nn.relu)(x @ w + b)
""",
            "outside of a jitted function",
        ),
        WrongAnswer(
            """\
def layer(w, b, x):
    return jax.jit(lambda: jax.nn.relu(x @ w + b))()
""",
            "a new function has compiled nothing yet",
        ),
        WrongAnswer(
            """\
def layer(w, b, x):
    return np.maximum(np.asarray(x) @ np.asarray(w) + np.asarray(b), 0)
""",
            "JAX did not do the work",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
product = jax.jit(lambda w, x: x @ w)


def layer(w, b, x):
    return np.maximum(np.asarray(product(w, x)) + np.asarray(b), 0)
""",
            "NumPy needs numbers",
        ),
    ),
    hints=(
        "Put `%%recompiles` above a cell that calls `layer`: it lists the programs.",
        "JAX compiles several operations together only if it is told to look at all of them first.",
        "`layer = jax.jit(layer)` once, or `@jax.jit` above the `def`.",
    ),
    check=check,
    after="One program for the whole line, kept for every later call with these shapes.",
)
