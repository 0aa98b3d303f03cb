"""Puzzle 30.2, of the learner's own JAX."""

from dataclasses import replace
from typing import Any

import numpy as np

import jaxlens
from jaxlens.course.own import run_stablehlo
from jaxlens.course.puzzle import Facts, Function, Proof, Puzzle, WrongAnswer, close, equal


def check(loss: Function, step_program: bytes) -> Facts:
    random = np.random.default_rng(0)
    shapes = ((784, 256), (256,), (128, 784))
    w, b, x = (random.normal(size=shape).astype(np.float32) / 10 for shape in shapes)

    def squares(w: Any, b: Any, x: Any) -> Any:
        y = np.maximum(x @ w + b, 0)
        return (y**2).sum()

    hint = "The sum of the squares of the layer's result."
    yield close("loss", loss(w, b, x), squares(w, b, x), rtol=1e-3, hint=hint)
    yield equal("type of step_program", type(step_program).__name__, "bytes")
    text = step_program.decode()
    result = run_stablehlo(text, w, b, x)
    hint = "It must be the gradient with respect to w, of w's shape."
    yield equal("shape of what XLA computes", tuple(np.shape(result)), (784, 256), hint=hint)
    right = x.T @ (2 * np.maximum(x @ w + b, 0))
    fact = close("gradient that XLA computes", result, right, rtol=1e-2, hint=hint)
    yield replace(fact, evidence=Proof(jaxlens.compile, (text,)))


SOLUTION = """\
def loss(w, b, x):
    y = relu(x @ w + b)
    return total(y * y)


step_program = export(grad(loss), (784, 256), (256,), (128, 784))
"""

PUZZLE = Puzzle(
    id="30.2",
    title="The whole of it",
    task="""\
Lesson 1 began with `relu(x @ w + b)`. **Your own JAX** can now trace, differentiate, lower and
hand it to XLA. Write `loss(w, b, x)`, the sum of the squares of that layer's result, and
`step_program`, the exported program of its gradient with respect to `w`, for `w` of shape (784,
256), `b` of (256,) and `x` of (128, 784). What `my_jax.py` defines is at hand here: `relu`, `total`
for a sum, and the functions that you wrote. Your tracers know `@`, `+` and `*`, and no `**`.
""",
    starter="""\
def loss(w, b, x):
    ...


step_program = ...
""",
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            """\
def loss(w, b, x):
    y = relu(x @ w + b)
    return total(y * y)


step_program = export(loss, (784, 256), (256,), (128, 784))
""",
            "gradient",
        ),
        WrongAnswer(
            """\
def loss(w, b, x):
    return total(relu(x @ w + b))


step_program = export(grad(loss), (784, 256), (256,), (128, 784))
""",
            "squares",
        ),
    ),
    hints=(
        "Everything is in `my_jax.py`: `relu`, `total`, `grad`, `export`.",
        ("`export(f, *shapes)` traces and lowers; `grad(loss)` is a function like any other."),
        "`step_program = export(grad(loss), (784, 256), (256,), (128, 784))`.",
    ),
    check=check,
    after="From an empty class to a program that XLA runs: you have written a JAX.",
    saves="the network",
)
