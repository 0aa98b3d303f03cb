"""Puzzle 13.1."""

from typing import Any

import numpy as np

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

_MANY, _FEW = 40, 2


def check(jac: Function) -> Facts:
    import jax.numpy as jnp

    for shape, inputs, outputs in (("wide", _MANY, _FEW), ("tall", _FEW, _MANY)):
        random = np.random.default_rng(inputs)
        first = random.normal(size=(inputs, 30)).astype(np.float32) / 10
        last = random.normal(size=(30, outputs)).astype(np.float32) / 10

        def f(x: Any, first: Any = first, last: Any = last) -> Any:
            return jnp.sin(x @ first) @ last

        x = np.linspace(-1, 1, inputs, dtype=np.float32)
        right = (first * np.cos(x @ first)) @ last

        def mine(x: Any, f: Any = f) -> Any:
            return jac(f, x)

        hint = "A row for each result, a column for each input."
        yield close(f"{shape} Jacobian", as_program(mine, x), right.T, rtol=1e-3, hint=hint)
        hint = (
            "It goes forward once for each input, and there are many."
            if shape == "wide"
            else "It goes backward once for each result, and now there are many."
        )
        limit = 10 * jaxlens.cost(f, x).counted
        cost = jaxlens.cost(mine, x).counted
        proof = Proof(jaxlens.cost, (mine, x))
        name = f"{shape}: flops"
        yield at_most(name, cost, limit, unit="flop", hint=hint, evidence=proof)


PUZZLE = Puzzle(
    id="13.1",
    title="The cheaper way",
    task="""\
`jac(f, x)` returns the Jacobian of `f` at the vector `x`, column by column. The check calls it for
a **wide** one, 2 results of 40 inputs, and for a **tall** one, 40 results of 2 inputs. Make it take
the cheaper way each time. You may use `jax.jacfwd` and `jax.jacrev`.
""",
    starter="""\
def jac(f, x):
    units = np.eye(x.size, dtype=np.float32)
    return jax.vmap(lambda t: jax.jvp(f, (x,), (t,))[1], out_axes=1)(units)
""",
    solution="""\
def jac(f, x):
    if x.size < f(x).size:
        return jax.jacfwd(f)(x)
    return jax.jacrev(f)(x)
""",
    wrong=(
        WrongAnswer("def jac(f, x):\n    return jax.jacfwd(f)(x)\n", "once for each input"),
        WrongAnswer("def jac(f, x):\n    return jax.jacrev(f)(x)\n", "once for each result"),
        WrongAnswer(
            "def jac(f, x):\n    return jax.grad(lambda x: f(x).sum())(x)\n",
            "A row for each result",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def jac(f, x):
    ways = jax.jacfwd(f)(x), jax.jacrev(f)(x)
    return ways[x.size > f(x).size]
""",
            "once for each input",
        ),
    ),
    hints=(
        "`%compile --cost` above a call: how much more work is it than one call of `f`?",
        "A column costs one run forward, a row one run backward. How many of each are there?",
        "Compare `x.size` with `f(x).size`: both are known while JAX traces.",
    ),
    check=check,
    after=(
        "Sizes are known while tracing, so a Python `if` decides, and the more expensive way never "
        "gets into the program."
    ),
)
