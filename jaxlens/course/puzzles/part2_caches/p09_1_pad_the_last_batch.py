"""Puzzle 9.1."""

import numpy as np

import jaxlens
from jaxlens.course.puzzle import Facts, Function, Puzzle, WrongAnswer, close, edited, equal


def check(epochs: Function) -> Facts:
    random = np.random.default_rng(0)
    data = random.normal(size=(75, 8)).astype(np.float32)
    w = random.normal(size=(8, 4)).astype(np.float32)
    with jaxlens.recompiles() as log:
        total = epochs(data, w)
    right = 2 * np.cos(data @ w).sum()
    hint = "Every row counts once in each of the two epochs, and nothing else does."
    if np.allclose(total, right + 2 * 21 * 4, rtol=1e-3):
        hint = "The 21 rows of zeros count too, as the cosine of 0 is 1. Say which rows count."
    elif np.allclose(total, 2 * np.cos(data[:64] @ w).sum(), rtol=1e-3):
        hint = "The last 11 rows are missing."
    yield close("total", total, right, rtol=1e-3, hint=hint)
    hints = {
        0: "Nothing was compiled: keep `jax.jit`.",
        2: "The last batch has 11 rows, and a shape is part of the cache key.",
    }
    hint = hints.get(log.compiles, "A function that is jitted anew has an empty cache every time.")
    yield equal("compiles", log.compiles, 1, hint=hint, evidence=lambda: log)


SOLUTION = """\
@jax.jit
def step(w, x, mask):
    return (jnp.cos(x @ w) * mask[:, None]).sum()


def epochs(data, w):
    total = 0.0
    for _ in range(2):
        for start in range(0, 75, 32):
            batch = data[start : start + 32]
            rows = len(batch)
            mask = (np.arange(32) < rows).astype(np.float32)
            total += float(step(w, np.pad(batch, ((0, 32 - rows), (0, 0))), mask))
    return total
"""

PUZZLE = Puzzle(
    id="9.1",
    title="The last batch",
    task="""\
75 rows are read in batches of 32, for two epochs. The last batch has 11 rows, so `step` is compiled
twice. Change the program so that it is compiled **once** and returns the same total. How the rows
are read is up to you.
""",
    starter="""\
@jax.jit
def step(w, x):
    return jnp.cos(x @ w).sum()


def epochs(data, w):
    total = 0.0
    for _ in range(2):
        for start in range(0, 75, 32):
            total += float(step(w, data[start : start + 32]))
    return total
""",
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            """\
def epochs(data, w):
    total = 0.0
    for _ in range(2):
        for start in range(0, 75, 32):
            step = jax.jit(lambda w, x: jnp.cos(x @ w).sum())
            total += float(step(w, data[start : start + 32]))
    return total
""",
            "jitted anew",
        ),
        WrongAnswer(edited(SOLUTION, (" * mask[:, None]", "")), "the cosine of 0 is 1"),
        WrongAnswer(edited(SOLUTION, ("0, 75, 32", "0, 64, 32")), "11 rows are missing"),
        WrongAnswer(
            """\
def epochs(data, w):
    return 2 * np.cos(data @ w).sum()
""",
            "keep `jax.jit`",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
@jax.jit
def step(w, x):
    return jnp.cos(x @ w).sum()


def epochs(data, w):
    starts = (0, 32, 43)  # the last batch is full too
    return 2 * sum(float(step(w, data[start : start + 32])) for start in starts)
""",
            "Every row counts once",
        ),
    ),
    hints=(
        "Run `%%recompiles` above a call of `epochs`: which argument is new, and what about it?",
        "The shape of `x` differs in the last batch. Which shapes would be the same every time?",
        "Pad the last batch to 32 rows, and pass a mask that says which rows count.",
    ),
    check=check,
    after="One shape, one program: pad the last batch, or make all batches alike.",
)
