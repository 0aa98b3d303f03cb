"""Puzzle 25.1."""

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
    edited,
)


def check(dist: Function) -> Facts:
    import jax.numpy as jnp

    n, d = 256, 16
    a = jnp.sin(jnp.arange(n * d, dtype=jnp.float32)).reshape(n, d)
    b, w = jnp.cos(2 * a), jnp.arange(float(d)) / d
    wanted = ((a[:, None] - b) ** 2 * w).sum(-1)
    hint = "Entry (i, j) is the sum over k of w[k] * (a[i, k] - b[j, k])²."
    yield close("dist(a, b, w)", as_program(dist, a, b, w), wanted, rtol=1e-3, hint=hint)
    capture = jaxlens.capture(dist, a, b, w)
    found = jaxlens.receipt(capture).temporaries
    hint = "The cube of all differences is in memory: a product takes its operands from there."
    proof = Proof(jaxlens.memory, (capture,))
    limit = n * n * d * 4 // 4
    yield at_most("temporaries", found, limit, unit="B", hint=hint, evidence=proof)
    hint = (
        "The cube is not in memory any more, and yet each of its numbers is computed. "
        "What is (a - b)², multiplied out?"
    )
    flops = jaxlens.receipt(capture).flops
    proof = Proof(jaxlens.cost, (capture,))
    yield at_most("flops", flops, 3_000_000, unit="flop", hint=hint, evidence=proof)


SOLUTION = """\
def dist(a, b, w):
    squares = (a * a * w).sum(1)[:, None] + (b * b * w).sum(1)
    return squares - 2 * (a * w) @ b.T
"""

PUZZLE = Puzzle(
    id="25.1",
    title="No cube",
    task="""\
`dist` computes weighted squared distances between 256 points `a` and 256 points `b` in 16
dimensions. On the way it makes a cube of 256x256x16 numbers, 4.2 MB, with 4.2 million flops. Do
**without the cube** altogether: temporaries below a quarter of it, and at most 3 million flops.
""",
    starter="""\
def dist(a, b, w):
    return jnp.einsum("ijk,k->ij", (a[:, None] - b) ** 2, w)
""",
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            "def dist(a, b, w):\n    return ((a[:, None] - b) ** 2 * w).sum(-1)\n",
            "multiplied out",
        ),
        WrongAnswer(
            "def dist(a, b, w):\n    return jnp.tensordot((a[:, None] - b) ** 2, w, 1)\n",
            "a product takes its operands from there",
        ),
        WrongAnswer(
            """\
def dist(a, b, w):
    one = lambda p, q: (p - q) ** 2 @ w
    return jax.vmap(jax.vmap(one, (None, 0)), (0, None))(a, b)
""",
            "The cube of all differences",
        ),
        WrongAnswer(edited(SOLUTION, ("(b * b * w)", "(b * b)")), "sum over k"),
    ),
    cheats=(
        WrongAnswer(
            """\
def dist(a, b, w):
    row = lambda p: ((p - b) ** 2 * w).sum(-1)
    return lax.map(row, a)
""",
            "multiplied out",
        ),
    ),
    hints=(
        "Run `%compile --memory dist(a, b, w)`: which line owns the peak, and what type is it?",
        "(a - b)² = a² - 2ab + b². Which of the three terms needs both points?",
        "Two weighted sums over rows, `(a * a * w).sum(1)` and its like, and one matrix product.",
    ),
    check=check,
    after=(
        "A fused sum never writes the cube, and the expanded square never has one. The price is "
        "digits: where two points are close, large terms cancel."
    ),
    backends=("cpu",),
    seconds=30.0,
)
