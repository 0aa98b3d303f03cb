"""Puzzle 24.1."""

import jaxlens
from jaxlens.course.puzzle import (
    Facts,
    Function,
    Proof,
    Puzzle,
    WrongAnswer,
    as_program,
    at_most,
    close,
)


def check(chain: Function) -> Facts:
    import jax.numpy as jnp

    n = 200
    a = (jnp.arange(float(n * n)) % 7).reshape(n, n) - 3
    b, v = a.T + (a > 1), jnp.arange(float(n)) % 5 - 1  # small whole numbers: sums are exact
    hint = "It must be the product of `A`, `B` and `v`, in this order."
    yield close(
        "chain(A, B, v)", as_program(chain, a, b, v) / n, a @ (b @ v) / n, rtol=1e-3, hint=hint
    )
    capture = jaxlens.capture(chain, a, b, v)
    flops = jaxlens.receipt(capture).flops
    hint = "A matrix times a matrix comes first: 2 n³ flops. What would a vector cost?"
    limit = int(1.1 * 2 * 2 * n * n)
    proof = Proof(jaxlens.cost, (capture,))
    yield at_most("flops", flops, limit, unit="flop", hint=hint, evidence=proof)


PUZZLE = Puzzle(
    id="24.1",
    title="Where the brackets go",
    task="""\
`A` and `B` are 200x200 matrices, `v` is a vector. Compute the same product with **at most 176,000
flops**: about two for each entry of each matrix.
""",
    starter="""\
def chain(A, B, v):
    return A @ B @ v
""",
    solution="""\
def chain(A, B, v):
    return A @ (B @ v)
""",
    wrong=(
        WrongAnswer(
            "def chain(A, B, v):\n    return jnp.dot(jnp.dot(A, B), v)\n",
            "What would a vector cost",
        ),
        WrongAnswer("def chain(A, B, v):\n    return B @ (A @ v)\n", "in this order"),
        WrongAnswer("def chain(A, B, v):\n    return jax.jit(lambda: A @ B)() @ v\n", "2 n³"),
    ),
    cheats=(
        WrongAnswer(
            """\
def chain(A, B, v):
    return B @ (A @ v)
""",
            "in this order",
        ),
    ),
    hints=(
        "Run `%compile --cost chain(A, B, v)`: which product has nearly all the flops?",
        "Python's `@` goes from left to right. XLA keeps your order.",
        "Multiply `B` by the vector first, then `A` by the vector that comes out.",
    ),
    check=check,
    after=(
        "XLA does not reorder products, because rounding would change. `jnp.linalg.multi_dot` "
        "chooses the order for you."
    ),
    seconds=30.0,
)
