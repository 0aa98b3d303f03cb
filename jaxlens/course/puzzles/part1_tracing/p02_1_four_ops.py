"""Puzzle 2.1."""

import jaxlens
from jaxlens.course.puzzle import (
    Facts,
    Function,
    Proof,
    Puzzle,
    WrongAnswer,
    as_program,
    at_most,
    close,
)


def check(g: Function) -> Facts:
    import jax.numpy as jnp

    x = jnp.arange(5.0)
    yield close("g(x)", as_program(g, x), x * 2 + 1)
    yield close("g of other numbers", as_program(g, x - 7), (x - 7) * 2 + 1)
    capture = jaxlens.capture(g, x)
    ops = [node.opcode for node in capture.stablehlo.module.nodes() if "return" not in node.opcode]
    hint = "Each number is two ops: a `constant`, and a `broadcast_in_dim` that repeats it."
    proof = Proof(jaxlens.hlo, (capture,), {"stage": "stablehlo"})
    yield at_most("ops of StableHLO", len(ops), 4, hint=hint, evidence=proof)


PUZZLE = Puzzle(
    id="2.1",
    title="Four ops",
    task="""\
`x * 2 + 1` is six ops of StableHLO. Write a `g` that computes the same numbers for an array of
five, in at most **four**.
""",
    starter="""\
def g(x):
    return x * 2 + 1
""",
    solution="""\
def g(x):
    return x + x + 1
""",
    wrong=(
        WrongAnswer("def g(x):\n    return (x + 0.5) * 2\n", "Each number is two ops"),
        WrongAnswer("def g(x):\n    return x + 1\n", "g(x), wanted 1 3 5 7"),
    ),
    cheats=(
        WrongAnswer(
            "def g(x):\n    return x + jnp.arange(1.0, 6.0)\n",
            "g of other numbers",
        ),
    ),
    hints=(
        "Count the lines of `%hlo --stage stablehlo g(x)`: which come from a number of yours?",
        "Two of the six ops multiply and add. The other four make arrays of 2 and of 1.",
        "Twice `x` is a sum that needs no number.",
    ),
    check=check,
    after=(
        "Constants and broadcasts look costly here and are not: XLA puts them into the loop, and "
        "both versions become one fusion."
    ),
)
