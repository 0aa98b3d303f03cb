"""Puzzle 13.3."""

from typing import Any

import numpy as np

import jaxlens
from jaxlens.course.puzzle import Facts, Function, Proof, Puzzle, WrongAnswer, at_most, close


def check(hvp: Function) -> Facts:
    import jax
    import jax.numpy as jnp

    def f(x: Any) -> Any:
        return jnp.sin(x @ x) + (x**3).sum()

    def mine(x: Any, v: Any) -> Any:
        return hvp(f, x, v)

    x = np.array([0.5, -1.0, 0.2, 0.7], np.float32)
    v = np.array([1.0, 2.0, -1.0, 0.5], np.float32)
    s = x @ x
    right = 2 * np.cos(s) * v - 4 * np.sin(s) * (x @ v) * x + 6 * x * v
    hint = "The Hessian times v: how the gradient changes when x moves along v."
    yield close("hvp(f, x, v)", jax.jit(mine)(x, v), right, rtol=1e-3, hint=hint)
    hint = "It is linear in v: for 1e4 v it is 1e4 times as large. Differences are not."
    large = jax.jit(mine)(x, 1e4 * v) / 1e4
    yield close("hvp(f, x, 10000 v) / 10000", large, right, rtol=1e-3, hint=hint)
    n = 300
    large = jnp.linspace(0.0, 1.0, n) / n
    hint = "It is right for four numbers, and must be for any."
    wanted = jax.jvp(jax.grad(f), (large,), (large,))[1]
    found = jax.jit(mine)(large, large)
    yield close(f"hvp(f, x, x) of {n} numbers", found, wanted, rtol=1e-3, hint=hint)
    memory = jaxlens.memory(mine, large, large)
    hint = f"The whole matrix is there: {n} times {n} numbers are {n * n * 4 // 1000} kB."
    proof = Proof(jaxlens.memory, (mine, large, large))
    yield at_most("peak", memory.peak, n * n, unit="B", hint=hint, evidence=proof)


PUZZLE = Puzzle(
    id="13.3",
    title="Without the matrix",
    task="""\
`hvp(f, x, v)` is the Hessian of `f` at `x`, the matrix of all second derivatives, times the vector
`v`. Compute it **without making the matrix**: for 300 numbers it takes 360 kB.
""",
    starter="""\
def hvp(f, x, v):
    return jax.hessian(f)(x) @ v
""",
    solution="""\
def hvp(f, x, v):
    return jax.jvp(jax.grad(f), (x,), (v,))[1]
""",
    wrong=(
        WrongAnswer(
            "def hvp(f, x, v):\n    return jax.jacfwd(jax.grad(f))(x) @ v\n",
            "The whole matrix is there",
        ),
        WrongAnswer(
            "def hvp(f, x, v):\n    return jax.jvp(jax.grad(f), (x,), (v,))[0]\n",
            "how the gradient changes",
        ),
        WrongAnswer("def hvp(f, x, v):\n    return jax.grad(f)(x) * v\n", "along v"),
        WrongAnswer(
            "def hvp(f, x, v):\n    return jnp.diag(jax.hessian(f)(x)) * v\n", "The Hessian times v"
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def hvp(f, x, v):
    g = jax.grad(f)
    return (g(x + 1e-3 * v) - g(x - 1e-3 * v)) / 2e-3
""",
            "linear in v",
        ),
        WrongAnswer(
            """\
def hvp(f, x, v):
    row = lambda unit: jax.jvp(jax.grad(f), (x,), (unit,))[1] @ v
    return lax.map(row, jnp.eye(x.size))
""",
            "The whole matrix is there",
        ),
    ),
    hints=(
        "`%compile --memory` above a call of `hvp`: which line owns the largest value?",
        "The gradient is a function of x. How does it change when x moves along v?",
        "`jax.jvp(jax.grad(f), (x,), (v,))` gives the gradient, and its change along v.",
    ),
    check=check,
    after="Forward over reverse: one direction through the gradient costs a few gradients.",
)
