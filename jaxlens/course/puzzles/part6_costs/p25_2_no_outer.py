"""Puzzle 25.2."""

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


def check(f: Function) -> Facts:
    import jax.numpy as jnp

    n = 600
    u = jnp.sin(jnp.arange(float(n)))
    v, w = 1 + jnp.cos(u), jnp.arange(float(n)) / n
    wanted = u * (v @ w)
    hint = "The result has an entry for each entry of `u`: u[i] * (sum of v[j] * w[j])."
    yield close("f(u, v, w)", as_program(f, u, v, w), wanted, rtol=1e-3, hint=hint)
    capture = jaxlens.capture(f, u, v, w)
    found = jaxlens.receipt(capture).temporaries
    hint = "There is still a matrix of 600x600 in memory. Does the result need one?"
    proof = Proof(jaxlens.memory, (capture,))
    limit = n * n * 4 // 4
    yield at_most("temporaries", found, limit, unit="B", hint=hint, evidence=proof)


PUZZLE = Puzzle(
    id="25.2",
    title="A matrix that nobody asked for",
    task="""\
`u`, `v` and `w` have 600 entries each, and so has the result. On the way there is a matrix of
600x600, 1.44 MB. Compute the same with temporaries **below a quarter** of that.
""",
    starter="""\
def f(u, v, w):
    return jnp.outer(u, v) @ w
""",
    solution="""\
def f(u, v, w):
    return u * (v @ w)
""",
    wrong=(
        WrongAnswer("def f(u, v, w):\n    return (u[:, None] * v) @ w\n", "Does the result need"),
        WrongAnswer("def f(u, v, w):\n    return jnp.outer(u, w) @ v\n", "Does the result need"),
        WrongAnswer("def f(u, v, w):\n    return u * v * w\n", "u[i] * (sum"),
    ),
    cheats=(
        WrongAnswer(
            """\
def f(u, v, w):
    return jnp.outer(u, v)[:, ::2] @ w[::2] * 2
""",
            "u[i] * (sum",
        ),
    ),
    hints=(
        "Run `%compile --memory f(u, v, w)`: which line makes the largest temporary?",
        "(u vᵀ) w is the same as u (vᵀ w): brackets, as in lesson 24.",
        "`v @ w` is one number.",
    ),
    check=check,
    after="The brackets that save flops save the memory too: what is never computed needs none.",
    backends=("cpu",),
    seconds=30.0,
)
