"""Puzzle 22.3."""

import jaxlens
from jaxlens.course.puzzle import (
    Facts,
    Function,
    Proof,
    Puzzle,
    WrongAnswer,
    as_program,
    close,
    equal,
)


def check(f: Function) -> Facts:
    import jax.numpy as jnp

    x = jnp.linspace(-2.0, 2.0, 12).reshape(3, 4)
    hint = "It must still be the sum of both numbers, for every element."
    wanted = jnp.exp(-(jnp.sin(x) ** 2)) + jnp.cos(x)
    yield close("f(x)", as_program(f, x), wanted, hint=hint)
    large = jnp.linspace(-2.0, 2.0, 256 * 256).reshape(256, 256)
    right = jnp.exp(-(jnp.sin(large) ** 2)) + jnp.cos(large)
    yield close("f(x) of 256x256", as_program(f, large), right, hint=hint)
    capture = jaxlens.capture(f, large)
    receipt = jaxlens.receipt(capture)
    runs = receipt.kernels + receipt.library_calls
    hint = "Some value is still written by one kernel and read by the next: which one?"
    if "sort" in receipt.primitives:
        hint = "The sort is still in it. Does the sum of two numbers depend on their order?"
    elif receipt.library_calls:
        hint = "One of them is a library call, which is no kernel of XLA's own."
    proof = Proof(jaxlens.fusion, (capture,))
    yield equal("kernels and library calls", runs, 1, hint=hint, evidence=proof)
    yield equal("library calls", receipt.library_calls, 0, hint=hint, evidence=proof)


SOLUTION = """\
def f(x):
    return jnp.exp(-(jnp.sin(x) ** 2)) + jnp.cos(x)
"""

PUZZLE = Puzzle(
    id="22.3",
    title="One kernel",
    task="""\
For each element, `f` puts two numbers on top of each other, sorts the two, and adds them. That runs
as more than one kernel. Change `f` so that it returns the same values and runs as **one kernel**,
without a library call.
""",
    starter="""\
def f(x):
    pair = jnp.stack([jnp.exp(-(jnp.sin(x) ** 2)), jnp.cos(x)])
    return jnp.sort(pair, axis=0).sum(axis=0)
""",
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            """\
def f(x):
    low, high = jnp.sort(jnp.stack([jnp.exp(-(jnp.sin(x) ** 2)), jnp.cos(x)]), axis=0)
    return low + high
""",
            "The sort is still in it",
        ),
        WrongAnswer(
            """\
def f(x):
    pair = jnp.stack([jnp.exp(-(jnp.sin(x) ** 2)), jnp.cos(x)])
    return jnp.tensordot(jnp.ones(2), pair, 1)
""",
            "wanted 1",
        ),
        WrongAnswer(
            """\
def f(x):
    return jnp.maximum(jnp.exp(-(jnp.sin(x) ** 2)), jnp.cos(x))
""",
            "the sum of both numbers",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def f(x):
    return 2 - 1.5 * x**2 + x**4 / 3
""",
            "the sum of both numbers",
        ),
    ),
    hints=(
        "Run `%hlo --fusion f(jnp.ones((256, 256)))`: which operation stands between the kernels?",
        "A sort needs all its numbers before it can give the first one. What is it needed for?",
        "Adding two numbers gives the same in either order, so the sort can go.",
    ),
    check=check,
    after=(
        "What is left computes each element from the same element of `x`, so one loop can do all "
        "of it. XLA cannot know that the sort was not needed; you can."
    ),
    backends=("cpu",),
    seconds=30.0,
)
