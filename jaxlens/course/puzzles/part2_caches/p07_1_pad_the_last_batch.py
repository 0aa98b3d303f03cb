"""Puzzle 7.1."""

from collections.abc import Callable, Iterator
from typing import Any

import jaxlens
from jaxlens.course.puzzle import Fact, Puzzle, WrongAnswer, at_most


def check(epochs: Callable[..., Any]) -> Iterator[Fact]:
    import jax.numpy as jnp

    with jaxlens.recompiles() as log:
        epochs(jnp.ones((75, 8)), jnp.ones((8, 4)))
    each_time = log.compiles >= 6
    hint = (
        "A function that is jitted anew in every turn has an empty cache every time."
        if each_time
        else "The last batch has 11 rows, and a shape is part of the cache key."
    )
    yield at_most("compiles", log.compiles, 1, hint=hint, evidence=lambda: log.answer)


PUZZLE = Puzzle(
    id="7.1",
    title="The last batch",
    task="""\
75 rows are read in batches of 32, for two epochs. The last batch has 11 rows, so `step` is compiled
twice. Change the program so that it is compiled **once**.
""",
    starter="""\
@jax.jit
def step(w, x):
    return jnp.sin(x @ w).sum()


def epochs(data, w):
    for _ in range(2):
        for start in range(0, 75, 32):
            step(w, data[start : start + 32])
""",
    solution="""\
@jax.jit
def step(w, x, mask):
    return (jnp.sin(x @ w) * mask[:, None]).sum()


def epochs(data, w):
    data = np.asarray(data)
    for _ in range(2):
        for start in range(0, 75, 32):
            batch = data[start : start + 32]
            rows = len(batch)
            mask = (np.arange(32) < rows).astype(np.float32)
            step(w, np.pad(batch, ((0, 32 - rows), (0, 0))), mask)
""",
    wrong=(
        WrongAnswer(
            """\
def epochs(data, w):
    for _ in range(2):
        for start in range(0, 75, 32):
            jax.jit(lambda w, x: jnp.sin(x @ w).sum())(w, data[start : start + 32])
""",
            "jitted anew in every turn",
        ),
    ),
    hints=(
        "Run `%%recompiles` above a call of `epochs`: which argument is new, and what about it?",
        "The shape of `x` differs in the last batch. Which shapes would be the same every time?",
        "Pad the last batch to 32 rows, and pass a mask that says which rows count.",
    ),
    check=check,
    after="One shape, one program: padding buys the cache hit.",
)
