"""Puzzle 24.4."""

from typing import Any

import jaxlens
from jaxlens.course.puzzle import Facts, Function, Proof, Puzzle, WrongAnswer, at_least


def check(f: Function, args: tuple[Any, ...]) -> Facts:
    capture = jaxlens.capture(f, *args)
    cost = jaxlens.cost(capture)
    proof = Proof(jaxlens.cost, (capture,))
    heaviest = max(cost.kernels, key=lambda kernel: kernel.flops, default=None)
    found = (heaviest.intensity or 0.0) if heaviest is not None else 0.0
    hint = "Each number that is read is used a few times. Where is it used hundreds of times?"
    if "dot_general" in jaxlens.receipt(capture).primitives:
        hint = (
            "In a product of a matrix and a vector each entry is used once: two flops for 4 bytes."
            if found < 1
            else "A product of n x n matrices does n/6 flops for each byte. Is a size too small?"
        )
    yield at_least("flops per byte", found, 50, hint=hint, evidence=proof)


PUZZLE = Puzzle(
    id="24.4",
    title="More work for each byte",
    task="""\
An addition reads two numbers and writes one for a single flop. Write an `f`, and `args` to call it
with, whose heaviest kernel does **at least 50 flops for each byte** that it moves.
""",
    starter="""\
def f(x, y):
    return x + y


args = (jnp.ones((512, 512)), jnp.ones((512, 512)))
""",
    solution="""\
def f(x, y):
    return x @ y


args = (jnp.ones((512, 512)), jnp.ones((512, 512)))
""",
    wrong=(
        WrongAnswer(
            "f = lambda x, y: x @ y\nargs = (jnp.ones((512, 512)), jnp.ones(512))\n",
            "two flops for 4 bytes",
        ),
        WrongAnswer(
            "f = lambda x, y: x @ y\nargs = (jnp.ones((64, 64)), jnp.ones((64, 64)))\n",
            "Is a size too small",
        ),
        WrongAnswer(
            "f = lambda x, y: x * y * 2 + x - y\nargs = (jnp.ones((4096, 512)),) * 2\n",
            "is used a few times",
        ),
    ),
    cheats=(
        WrongAnswer(
            "f = lambda x, y: x @ y\nargs = (jnp.ones((900, 4)), jnp.ones((4, 900)))\n",
            "Is a size too small",
        ),
    ),
    hints=(
        "Run `%compile --cost f(*args)` and read the column *flop/B*.",
        "Flops must grow faster than bytes. Larger arrays in an addition make both grow alike.",
        "A product of two n x n matrices: 2 n³ flops, 12 n² bytes.",
    ),
    check=check,
    after=(
        "Each number of a matrix product takes part in n products. That is why matrix products "
        "alone come near a device's flops per second."
    ),
    seconds=30.0,
)
