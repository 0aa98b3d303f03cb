"""Puzzle 14.2."""

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


def check(pairs: Function) -> Facts:
    random = np.random.default_rng(0)
    people, shops = (random.normal(size=shape).astype(np.float32) for shape in ((3, 2), (4, 2)))
    right = np.sqrt(((people[:, None] - shops[None]) ** 2).sum(-1))
    try:
        found = as_program(pairs, people, shops)
    except ValueError as error:
        if "vmap" not in str(error):
            raise
        hint = "One vmap walks both together, row by row. Each needs a vmap of its own."
        yield Fact("distances", "shape (3, 4)", "vmap's error", False, hint)
        return
    swapped = np.shape(found) == (4, 3)
    hint = (
        "The axis of the outer vmap comes first in the result, so the outer one maps the people."
        if swapped
        else "The result has a row for each person and a column for each shop."
    )
    yield close("distances", found, right, rtol=1e-3, hint=hint)
    receipt = jaxlens.receipt(pairs, people, shops)
    proof = Proof(jaxlens.jaxpr, (pairs, people, shops))
    loops = sum(receipt.primitives.get(name, 0) for name in ("scan", "while"))
    hint = "The pairs are computed one after another."
    yield equal("loops", loops, 0, hint=hint, evidence=proof)
    more = np.concatenate([shops, -shops])
    far = np.sqrt(((people[:, None] - more[None]) ** 2).sum(-1))
    again = as_program(pairs, people, more)
    hint = "A column for each shop, however many there are."
    yield close("distances to 8 shops", again, far, rtol=1e-3, hint=hint)
    new = jaxlens.receipt(pairs, people, more).equations - receipt.equations
    hint = "The program has equations for each pair, as Python's loops were traced."
    yield at_most("more equations for 8 shops", new, 0, hint=hint, evidence=proof)


_DISTANCE = """\
def distance(a, b):
    return jnp.sqrt(((a - b) ** 2).sum())


"""

PUZZLE = Puzzle(
    id="14.2",
    title="All pairs",
    task="""\
`distance` takes two points. `pairs(people, shops)` takes three people and four shops, a point in
each row, and returns an array of shape (3, 4): the distance from **every** person to **every**
shop. Build it from `distance` and `jax.vmap`.
""",
    starter=_DISTANCE + "pairs = jax.vmap(distance)\n",
    solution=_DISTANCE
    + """\
to_all_shops = jax.vmap(distance, in_axes=(None, 0))
pairs = jax.vmap(to_all_shops, in_axes=(0, None))
""",
    wrong=(
        WrongAnswer(
            _DISTANCE
            + """\
pairs = jax.vmap(jax.vmap(distance, in_axes=(0, None)), in_axes=(None, 0))
""",
            "outer vmap comes first",
        ),
        WrongAnswer(
            _DISTANCE
            + """\
def pairs(people, shops):
    return jnp.array([[distance(a, b) for b in shops] for a in people])
""",
            "equations for each pair",
        ),
        WrongAnswer(
            _DISTANCE
            + """\
pairs = jax.vmap(distance, in_axes=(None, 0))
""",
            "a row for each person",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def pairs(people, shops):
    return jnp.stack([jnp.sqrt(((people - shop) ** 2).sum(1)) for shop in shops], 1)
""",
            "equations for each pair",
        ),
    ),
    hints=(
        "Run `%jaxpr jax.vmap(distance, in_axes=(None, 0))(jnp.ones(2), jnp.ones((4, 2)))`: what "
        "is the shape of the result?",
        "`jax.vmap` returns a function, which `jax.vmap` can map again over another argument.",
        "The inner one maps the shops, `in_axes=(None, 0)`; the outer one the people, `(0, None)`.",
    ),
    check=check,
    after="Two vmaps are two axes, and the program still has one square root.",
)
