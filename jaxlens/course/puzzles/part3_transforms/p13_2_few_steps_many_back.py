"""Puzzle 13.2."""

import jaxlens
from jaxlens.course.puzzle import Facts, Function, Proof, Puzzle, WrongAnswer, at_least, at_most


def check(f: Function) -> Facts:
    import jax
    import jax.numpy as jnp

    x = jnp.float32(1.5)
    forward = jaxlens.receipt(f, x).equations
    hint = "Each operation is an equation, and what is written twice is computed twice: name it."
    proof = Proof(jaxlens.jaxpr, (f, x))
    yield at_most("equations of f", forward, 2, hint=hint, evidence=proof)
    gradient = jax.grad(f)
    rungs = jaxlens.ladder(gradient, x).rungs
    back = len(rungs[-1].backward)
    hint = (
        "The backward pass goes once through each equation with one varying input. Which "
        "operation reads x in two places, so that two cotangents come back and are added?"
    )
    proof = Proof(jaxlens.ladder, (gradient, x))
    yield at_least("backward equations", back, 5, hint=hint, evidence=proof)


PUZZLE = Puzzle(
    id="13.2",
    title="Two forward, five back",
    task="""\
`f` takes one number and returns one. Write it with **at most two equations**, so that its
gradient has **five or more** in its backward pass.
""",
    starter="""\
def f(x):
    return jnp.sin(5 * x)
""",
    solution="""\
def f(x):
    y = x * x
    return y * y
""",
    wrong=(
        WrongAnswer(
            """\
def f(x):
    for _ in range(5):
        x = jnp.sin(x)
    return x
""",
            "equations of f, wanted at most 2",
        ),
        WrongAnswer(
            """\
def f(x):
    return jnp.sin(jnp.exp(x))
""",
            "in two places",
        ),
        WrongAnswer(
            """\
def f(x):
    return x * jnp.sin(x)
""",
            "backward equations, wanted at least 5",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
@jax.jit
def three(x):
    return jnp.sin(jnp.sin(jnp.sin(x)))


def f(x):
    return three(x)
""",
            "equations of f",
        ),
    ),
    hints=(
        "Run `%jaxpr --ladder jax.grad(f)(1.5)`, and count the lines marked bwd.",
        "Try `x * jnp.sin(x)`: what comes back through the product, and how often?",
        "A product `y * y` sends back two cotangents and adds them: three equations. Use two such.",
    ),
    check=check,
    after=(
        "A value that is read twice gets two cotangents, and `add_any` adds them. The backward "
        "pass stays within a few times the length of the forward pass."
    ),
)
