"""Puzzle 24.3."""

import jaxlens
from jaxlens.course.puzzle import Facts, Function, Proof, Puzzle, WrongAnswer, at_least, at_most


def check(f: Function) -> Facts:
    import jax.numpy as jnp

    capture = jaxlens.capture(f, jnp.ones((64, 64)), jnp.ones(64))
    receipt = jaxlens.receipt(capture)
    cost = jaxlens.cost(capture)
    share = cost.counted / max(receipt.xla_flops, 1)
    hint = "XLA sees the same work as the equations have: where does it count work once only?"
    if cost.loops:
        hint = "XLA counts a loop's body once. What if the body were a loop too?"
    elif receipt.primitives.get("dot_general", 0) > 5:
        hint = "A Python loop is written out while tracing: XLA sees every product, and counts it."
    proof = Proof(jaxlens.cost, (capture,))
    longest = max((loop.trips or 0 for loop in cost.loops), default=0)
    long = "Fifty turns are the most that a loop may have here. What if its body were a loop too?"
    yield at_most("turns of the longest loop", longest, 50, hint=long, evidence=proof)
    yield at_least("counted flops over XLA's", share, 1000, hint=hint, evidence=proof)


SOLUTION = """\
def f(m, v):
    def fifty(v):
        return lax.fori_loop(0, 50, lambda i, v: m @ v, v)

    return lax.fori_loop(0, 50, lambda i, v: fifty(v), v)
"""

_ONE_LOOP = """\
def f(m, v):
    return lax.scan(lambda v, _: (m @ v, None), v, length=50)[0]
"""

PUZZLE = Puzzle(
    id="24.3",
    title="Hidden from XLA",
    task="""\
`m` is a 64x64 matrix and `v` a vector. Write an `f` that does **at least 1,000 times** as many
flops as XLA's cost analysis says, with **no loop of more than 50 turns**.
""",
    starter="""\
def f(m, v):
    return m @ v
""",
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            """\
def f(m, v):
    for _ in range(50):
        v = m @ v
    return v
""",
            "written out while tracing",
        ),
        WrongAnswer(_ONE_LOOP, "What if the body were a loop too"),
        WrongAnswer(
            "def f(m, v):\n    return jax.vmap(lambda i: m @ v * i)(jnp.arange(2000.0))\n",
            "count work once only",
        ),
    ),
    cheats=(WrongAnswer(_ONE_LOOP.replace("50", "2000"), "Fifty turns are the most"),),
    hints=(
        "Run `%compile --cost` on a program with a `lax.scan`: the last column is XLA's.",
        "XLA's analysis goes through the program's text once, whatever runs more often.",
        "Two loops that stay loops, one in the other: 50 turns of 50 turns.",
    ),
    check=check,
    after=(
        "`compiled.cost_analysis()` is this figure. For a training step with a scan over its "
        "layers it counts one layer only."
    ),
    seconds=30.0,
)
