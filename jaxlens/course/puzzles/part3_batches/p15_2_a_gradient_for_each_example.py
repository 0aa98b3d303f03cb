"""Puzzle 15.2."""

from typing import Any

import jax
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
    equal,
)


def check(per_example: Function) -> Facts:
    import jax.numpy as jnp

    random = np.random.default_rng(0)
    w, rows = (random.normal(size=shape).astype(np.float32) for shape in ((4, 2), (3, 4)))

    def loss(w: Any, row: Any) -> Any:
        return jnp.tanh(row @ w).sum()

    def per_row(loss: Function) -> Any:
        return np.stack([jax.grad(loss)(w, row) for row in rows])

    try:
        found = as_program(lambda w, rows: per_example(loss, w, rows), w, rows)
    except TypeError as error:
        if "contracting" in str(error):
            hint = "`in_axes` has an entry for each argument: None for `w`, and 0 for the rows."
            yield Fact("gradients", "shape (3, 4, 2)", "shapes that do not fit", False, hint)
            return
        if "scalar" not in str(error):
            raise
        hint = "The losses of all rows are three numbers: grad wants one. It stands inside vmap."
        yield Fact("gradients", "shape (3, 4, 2)", "grad's error", False, hint)
        return
    except ValueError as error:
        if "vmap" not in str(error):
            raise
        hint = "The rows share `w`: its entry in `in_axes` is None."
        yield Fact("gradients", "shape (3, 4, 2)", "shapes that do not fit", False, hint)
        return
    right = per_row(loss)
    summed = np.shape(found) == (4, 2)
    hint = (
        "That is the gradient of the sum: the three gradients are added already."
        if summed
        else "Row i of the result is the gradient of `loss(w, rows[i])` by w."
    )
    yield close("gradients", found, right, rtol=1e-3, hint=hint)

    def program(w: Any, rows: Any) -> Any:
        return per_example(loss, w, rows)

    def other(w: Any, row: Any) -> Any:
        return jnp.exp(row @ w).sum()

    hint = "It is the gradient of the loss that is given, whichever that is."
    found = as_program(lambda w, rows: per_example(other, w, rows), w, rows)
    yield close("gradients of another loss", found, per_row(other), rtol=1e-3, hint=hint)

    primitives = jaxlens.receipt(program, w, rows).primitives
    proof = Proof(jaxlens.jaxpr, (program, w, rows))
    loops = sum(primitives.get(name, 0) for name in ("scan", "while"))
    yield equal("loops", loops, 0, hint="The rows go one after another.", evidence=proof)
    hint = "The program has the equations of one gradient for each row."
    yield at_most("tanh equations", primitives.get("tanh", 0), 1, hint=hint, evidence=proof)


PUZZLE = Puzzle(
    id="15.2",
    title="A gradient for each example",
    task="""\
`loss(w, row)` is the loss of one example, a number. `per_example(loss, w, rows)` is to return the
gradient of **each** row's loss with respect to `w`: for `w` of shape (4, 2) and three rows, an
array of shape (3, 4, 2). No loop, please.
""",
    starter="""\
def per_example(loss, w, rows):
    return jax.grad(lambda w: loss(w, rows))(w)
""",
    solution="""\
def per_example(loss, w, rows):
    return jax.vmap(jax.grad(loss), in_axes=(None, 0))(w, rows)
""",
    wrong=(
        WrongAnswer(
            """\
def per_example(loss, w, rows):
    return jax.vmap(jax.grad(loss))(w, rows)
""",
            "The rows share `w`",
        ),
        WrongAnswer(
            """\
def per_example(loss, w, rows):
    return jax.grad(lambda w: jax.vmap(loss, (None, 0))(w, rows).sum())(w)
""",
            "gradient of the sum",
        ),
        WrongAnswer(
            """\
def per_example(loss, w, rows):
    return jax.grad(jax.vmap(loss, (None, 0)))(w, rows)
""",
            "grad wants one",
        ),
        WrongAnswer(
            """\
def per_example(loss, w, rows):
    return jnp.stack([jax.grad(loss)(w, row) for row in rows])
""",
            "for each row",
        ),
        WrongAnswer(
            """\
def per_example(loss, w, rows):
    return lax.map(lambda row: jax.grad(loss)(w, row), rows)
""",
            "one after another",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def per_example(loss, w, rows):
    slopes = 1 - jnp.tanh(rows @ w) ** 2
    return rows[:, :, None] * slopes[:, None]
""",
            "of another loss",
        ),
    ),
    hints=(
        "What is the shape of `jax.grad(loss)(w, rows[0])`? You want three of these.",
        "`jax.grad(loss)` is a function of `w` and one row. What makes it a function of all rows?",
        "`jax.vmap(jax.grad(loss), in_axes=(None, 0))`.",
    ),
    check=check,
    after="grad first, then vmap: three gradients. vmap first, then a sum, then grad: their sum.",
)
