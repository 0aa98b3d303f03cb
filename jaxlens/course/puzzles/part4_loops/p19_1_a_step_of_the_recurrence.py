"""Puzzle 19.1."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxlens
from jaxlens.course.puzzle import Facts, Function, Proof, Puzzle, WrongAnswer, close, equal


def check(both: Function) -> Facts:
    first, second = (2.0, 3.0), (5.0, 7.0)  # 2 y + 3, then 5 y + 7
    pairs = [tuple(jnp.float32(n) for n in pair) for pair in (first, second)]
    proof = Proof(jaxlens.jaxpr, (both, *pairs))
    got = both(*pairs)
    size = len(got) if isinstance(got, tuple | list) else 0
    hint = "Two steps are one step: return a pair, the factor and what is added."
    yield equal("numbers in the result", size, 2, hint=hint, evidence=proof)
    yield close("the factor of 2 y + 3, then 5 y + 7", got[0], 10.0, hint="The factors multiply.")
    hint = {
        10.0: "The first step's 3 goes through the second step: it is multiplied too.",
        17.0: "That is 5 y + 7 first, then 2 y + 3: the left step comes first.",
    }.get(float(got[1]), "Put 2 y + 3 into 5 y + 7, and sort by y.")
    yield close("what is added then", got[1], 22.0, hint=hint)

    random = np.random.default_rng(0)
    a, b = (jnp.asarray(random.uniform(0.5, 1.2, 16).astype(np.float32)) for _ in range(2))

    def step(y: Any, pair: Any) -> Any:
        y = pair[0] * y + pair[1]
        return y, y

    loop = jax.lax.scan(step, jnp.float32(0), (a, b))[1]
    tree = jax.jit(lambda steps: jax.lax.associative_scan(both, steps))((a, b))[1]
    hint = "The tree calls `both` with arrays of steps: it must work element by element."
    yield close("16 steps in a tree", tree, loop, rtol=1e-3, hint=hint)


PUZZLE = Puzzle(
    id="19.1",
    title="Two steps are one step",
    task="""\
`y = a * y + b` is a loop that many models are made of. A step is a pair `(a, b)`. Write
`both(left, right)`: the **one step that does the left one and then the right one**. Then
`lax.associative_scan(both, (a, b))` runs the loop as a tree.
""",
    starter="""\
def both(left, right):
    a, b = left
    c, d = right
    return a * c, b + d
""",
    solution="""\
def both(left, right):
    a, b = left
    c, d = right
    return c * a, c * b + d
""",
    wrong=(
        WrongAnswer(
            """\
def both(left, right):
    a, b = left
    c, d = right
    return a * c, a * d + b
""",
            "the left step comes first",
        ),
        WrongAnswer(
            """\
def both(left, right):
    a, b = left
    c, d = right
    return c * (a + b) + d
""",
            "Two steps are one step",
        ),
        WrongAnswer(
            """\
def both(left, right):
    a, b = left
    c, d = right
    return a + c, c * b + d
""",
            "The factors multiply",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def both(left, right):
    (a, b), (c, d) = left, right
    return a * c, 5 * b + d
""",
            "16 steps",
        ),
    ),
    hints=(
        "Write it on paper for 2 y + 3, then 5 y + 7: what is it in one?",
        "The left step turns y into a y + b. Put that in place of y in c y + d.",
        "c (a y + b) + d: the factor is c a, and what is added is c b + d.",
    ),
    check=check,
    after=(
        "Doing one function after another is always associative, so every such loop is a tree: the "
        "brackets are free, the order is not."
    ),
)
