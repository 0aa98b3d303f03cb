"""Puzzle 14.1."""

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


def check(batched: Function) -> Facts:
    random = np.random.default_rng(0)
    w, rows = (random.normal(size=shape).astype(np.float32) for shape in ((3, 2), (6, 3)))
    right = np.tanh(rows @ w).sum(1)
    try:
        found = as_program(batched, w, rows)
    except (TypeError, ValueError) as error:  # w was mapped too, or in place of the rows
        if "vmap" not in str(error) and "contracting" not in str(error):
            raise
        hint = "`w` has no batch axis: `in_axes` takes an entry for each argument, None for it."
        yield Fact("a score of each row", "6 scores", "shapes that do not fit", False, hint)
        return
    hint = "One score for each row: the sum is over the row's own results."
    yield close("a score of each row", found, right, hint=hint)
    primitives = jaxlens.receipt(batched, w, rows).primitives
    proof = Proof(jaxlens.jaxpr, (batched, w, rows))
    loops = sum(primitives.get(name, 0) for name in ("scan", "while"))
    hint = "`lax.map` is a loop: the rows still go through one after another."
    yield equal("loops", loops, 0, hint=hint, evidence=proof)
    hint = "Tracing ran your Python loop, and recorded a product for each row."
    more = np.concatenate([rows, -rows[:3]])
    again = as_program(batched, w, more)
    yield close("a score of each of nine rows", again, np.tanh(more @ w).sum(1), hint=hint)
    grown = jaxlens.receipt(batched, w, more).equations
    now = jaxlens.receipt(batched, w, rows).equations
    yield equal("equations for nine rows", grown, now, hint=hint, evidence=proof)
    products = primitives.get("dot_general", 0)
    yield at_most("matrix products", products, 1, hint=hint, evidence=proof)


_SCORE = """\
def score(w, row):
    return jnp.tanh(row @ w).sum()


"""

PUZZLE = Puzzle(
    id="14.1",
    title="Rows without a loop",
    task="""\
`score` takes one row. `batched` scores every row, and its program grows with the number of rows.
Write `batched` so that it has **one matrix product** for any number of rows, and no loop. Leave
`score` as it is.
""",
    starter=_SCORE
    + """\
def batched(w, rows):
    return jnp.stack([score(w, rows[i]) for i in range(len(rows))])
""",
    solution=_SCORE
    + """\
batched = jax.vmap(score, in_axes=(None, 0))
""",
    wrong=(
        WrongAnswer(
            _SCORE
            + """\
def batched(w, rows):
    return lax.map(lambda row: score(w, row), rows)
""",
            "one after another",
        ),
        WrongAnswer(_SCORE + "batched = jax.vmap(score)\n", "None for it"),
        WrongAnswer(_SCORE + "batched = score\n", "One score for each row"),
    ),
    cheats=(
        WrongAnswer(
            """\
def batched(w, rows):
    scores = [jnp.tanh((w * row[:, None]).sum(0)).sum() for row in rows]
    return jnp.stack(scores)
""",
            "a product for each row",
        ),
    ),
    hints=(
        "Run `%jaxpr batched(jnp.ones((3, 2)), jnp.ones((5, 3)))`: what is there five times?",
        "`jax.vmap` turns a function of one row into a function of all rows.",
        "The rows have a batch axis at 0, and `w` has none: `in_axes=(None, 0)`.",
    ),
    check=check,
    after="vmap rewrote each operation for all rows at once; nothing repeats.",
)
