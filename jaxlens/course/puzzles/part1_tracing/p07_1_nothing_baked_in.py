"""Puzzle 7.1."""

import inspect

import numpy as np

import jaxlens
from jaxlens.course.puzzle import (
    Fact,
    Facts,
    Function,
    Proof,
    Puzzle,
    WrongAnswer,
    as_program,
    at_most,
    close,
)


def check(score: Function) -> Facts:
    import jax.numpy as jnp

    x = jnp.full(200, 0.02)
    table = jnp.sin(jnp.arange(40000.0)).reshape(200, 200)
    try:
        inspect.signature(score).bind(x, table)
    except TypeError:  # it takes other arguments
        hint = "What is not passed at the call is captured, and becomes part of the program."
        took = f"score({', '.join(inspect.signature(score).parameters)})"
        proof = Proof(jaxlens.captured, (score, x))
        yield Fact("arguments", "score(x, table)", took, False, hint, proof)
        return
    right = np.tanh(np.asarray(x) @ np.asarray(table))
    found = as_program(score, x, table)
    same = np.array_equal(found, as_program(score, x, -table))
    hint = (
        "It was called with another table, and still read the old one."
        if same
        else "It should be `jnp.tanh(x @ table)`, with `x` as the first argument."
    )
    yield close("the value with another table", found, right, hint=hint)
    captured = jaxlens.captured(score, x, table)
    names = ", ".join(f"`{constant.name}`" for constant in captured.constants)
    yield at_most(
        "bytes baked in",
        captured.bytes,
        0,
        hint=f"{names} is read from outside of the function.",
        evidence=Proof(jaxlens.captured, (score, x, table)),
    )


PUZZLE = Puzzle(
    id="7.1",
    title="Nothing baked in",
    task="""\
`score(x)` reads a table of 160 kB that stands outside of it, so the numbers of the table become
part of the program. Make it `score(x, table)`, with **nothing before the semicolon** of its jaxpr.
""",
    starter="""\
table = jnp.ones((200, 200))


def score(x):
    return jnp.tanh(x @ table)
""",
    solution="""\
def score(x, table):
    return jnp.tanh(x @ table)
""",
    wrong=(
        WrongAnswer(
            """\
class Model:
    def __init__(self):
        self.table = jnp.ones((200, 200))

    def __call__(self, x):
        return jnp.tanh(x @ self.table)


score = Model()
""",
            "is not passed at the call",
        ),
        WrongAnswer(
            """\
from functools import partial

score = partial(lambda x, table: jnp.tanh(x @ table), table=jnp.ones((200, 200)))
""",
            "is not passed at the call",
        ),
        WrongAnswer(
            """\
big = jnp.ones((200, 200))


def score(x, table):
    return jnp.tanh(x @ big)
""",
            "still read the old one",
        ),
        WrongAnswer(
            """\
zeros = jnp.zeros((200, 200))


def score(x, table):
    return jnp.tanh(x @ (table + zeros))
""",
            "`zeros` is read from outside",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def score(x, table):
    return jnp.tanh(x.sum() * table[0])
""",
            "with `x` as the first argument",
        ),
    ),
    hints=(
        "Run `%jaxpr --captured score(jnp.ones(200))`: which array, from which line?",
        "JAX sees as inputs what you pass at the call, and nothing else.",
        "Let `score` take two arguments.",
    ),
    check=check,
    after="One program now serves every table, and holds none.",
)
