"""Puzzle 14.3."""

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
    close,
    equal,
)


def check(batched: Function) -> Facts:
    rows = np.linspace(-1.0, 2.0, 12, dtype=np.float32).reshape(4, 3)
    for training, right in ((True, np.sin(rows)), (False, np.cos(rows))):
        try:
            found = as_program(batched, rows, np.bool_(training))
        except ValueError as error:
            if "vmap" not in str(error):
                raise
            hint = "`training` is one number: it has no axis to go along, so its entry is None."
            yield Fact(f"training is {training}", "shape (4, 3)", "vmap's error", False, hint)
            return
        yield close(f"training is {training}", found, right)
    proof = Proof(jaxlens.jaxpr, (batched, rows, np.bool_(True)))
    primitives = jaxlens.receipt(batched, rows, np.bool_(True)).primitives
    loops = primitives.get("scan", 0) + primitives.get("while", 0)
    hint = "The branch stayed, but the batch became a loop. `vmap` can keep both."
    yield equal("loops", loops, 0, hint=hint, evidence=proof)
    selects = primitives.get("select_n", 0)
    hint = "Both branches are computed for every row, and a select throws one away."
    if primitives.get("cond", 0):
        hint = "A select is left beside the cond."
    yield equal("selects", selects, 0, hint=hint, evidence=proof)
    conds = primitives.get("cond", 0)
    hint = "No branch is in the program: both sides are computed."
    if conds > 1:
        hint = "Python's loop was traced: the program decides anew for each row."
    yield equal("branches (cond)", conds, 1, hint=hint, evidence=proof)


_LAYER = """\
def layer(row, training):
    return lax.cond(training, jnp.sin, jnp.cos, row)


"""

PUZZLE = Puzzle(
    id="14.3",
    title="A branch in a batch",
    task="""\
`training` is the same for the whole batch. Still `batched` computes the sine **and** the cosine
of every row, and throws one of them away. Change `batched` so that its program keeps the `cond`,
and runs one side only.
""",
    starter=_LAYER
    + """\
def batched(rows, training):
    flags = jnp.full(len(rows), training)
    return jax.vmap(layer)(rows, flags)
""",
    solution=_LAYER
    + """\
def batched(rows, training):
    return jax.vmap(layer, in_axes=(0, None))(rows, training)
""",
    wrong=(
        WrongAnswer(
            """\
def batched(rows, training):
    return jnp.where(training, jnp.sin(rows), jnp.cos(rows))
""",
            "a select throws one away",
        ),
        WrongAnswer(
            _LAYER
            + """\
def batched(rows, training):
    return lax.map(lambda row: layer(row, training), rows)
""",
            "the batch became a loop",
        ),
        WrongAnswer(
            """\
def batched(rows, training):
    return training * jnp.sin(rows) + (1 - training) * jnp.cos(rows)
""",
            "both sides are computed",
        ),
        WrongAnswer(
            _LAYER
            + """\
def batched(rows, training):
    return jnp.stack([layer(row, training) for row in rows])
""",
            "decides anew for each row",
        ),
        WrongAnswer(_LAYER + "batched = jax.vmap(layer)\n", "no axis to go along"),
    ),
    cheats=(
        WrongAnswer(
            """\
def batched(rows, training):
    unused = lax.cond(training, jnp.sin, jnp.cos, rows)
    return jnp.where(training, jnp.sin(rows), jnp.cos(rows))
""",
            "A select is left",
        ),
    ),
    hints=(
        "Run `%jaxpr batched(jnp.ones((4, 3)), jnp.bool_(True))`: is there a `cond`?",
        "`cond` became a select because its condition has a batch axis. Where did it get that?",
        "Do not repeat `training`: pass it with `None` in `in_axes`.",
    ),
    check=check,
    after=(
        "One condition for all rows is still one decision. A condition for each row would need "
        "both sides."
    ),
)
