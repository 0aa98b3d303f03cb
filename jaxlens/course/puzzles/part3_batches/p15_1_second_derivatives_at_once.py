"""Puzzle 15.1."""

from typing import Any

import jax
import numpy as np

import jaxlens
from jaxlens.course.puzzle import (
    Fact,
    Facts,
    Function,
    Puzzle,
    WrongAnswer,
    as_program,
    close,
    equal,
)


def check(g: Function) -> Facts:
    xs = np.linspace(-1.0, 2.0, 7, dtype=np.float32)

    def evidence() -> Any:
        try:
            return jaxlens.ladder(g, xs)
        except jaxlens.LensError:  # a function without transforms around it
            return jaxlens.jaxpr(g, xs)

    right = 2 * np.cos(xs) - xs * np.sin(xs)
    try:
        found = as_program(g, xs)
    except TypeError as error:
        if "scalar" not in str(error):
            raise
        hint = "grad needs one number to differentiate, so it stands inside vmap."
        yield Fact("the second derivative", "7 numbers", "grad's error", False, hint)
        return
    first = np.shape(found) == xs.shape and np.allclose(found, np.sin(xs) + xs * np.cos(xs), 1e-3)
    hint = "That is the first derivative." if first else "f(x) = sin(x) * x, and twice grad."
    if np.ndim(found) > 1:
        hint = "A matrix: each result by each point. Differentiate one number, and map that."
    yield close("the second derivative", found, right, rtol=1e-3, hint=hint)
    names = [eqn.primitive.name for eqn in jax.make_jaxpr(g)(xs).jaxpr.eqns]
    hint = "Outside a jit, each equation runs as a program of its own."
    if len(names) > 1 and {"jit", "pjit"} & {*names}:
        hint = "The jit inside was taken apart by the transforms around it: jit comes last."
    yield equal("programs that a call runs", len(names), 1, hint=hint, evidence=evidence)


_F = """\
def f(x):
    return jnp.sin(x) * x


"""

PUZZLE = Puzzle(
    id="15.1",
    title="Second derivatives at once",
    task="""\
Make `g`: the **second** derivative of `f` at every point of an array, as **one** compiled program.
""",
    starter=_F + "g = jax.vmap(jax.grad(f))\n",
    solution=_F + "g = jax.jit(jax.vmap(jax.grad(jax.grad(f))))\n",
    wrong=(
        WrongAnswer(_F + "g = jax.jit(jax.grad(jax.vmap(jax.grad(f))))\n", "inside vmap"),
        WrongAnswer(_F + "g = jax.vmap(jax.grad(jax.grad(f)))\n", "a program of its own"),
        WrongAnswer(_F + "g = jax.vmap(jax.grad(jax.grad(jax.jit(f))))\n", "jit comes last"),
        WrongAnswer(_F + "g = jax.jit(jax.vmap(jax.grad(f)))\n", "first derivative"),
        WrongAnswer(_F + "g = jax.jit(jax.jacfwd(jax.jacfwd(f)))\n", "each result by each point"),
    ),
    cheats=(
        WrongAnswer(
            """\
def f(x):
    return jnp.sin(x) * x


@jax.jit
def g(x):
    return (f(x + 1e-3) - 2 * f(x) + f(x - 1e-3)) / 1e-6
""",
            "the second derivative",
        ),
    ),
    hints=(
        "Run `%jaxpr --ladder g(jnp.arange(3.0))`: which rungs are there, and which is missing?",
        "Read it from the inside: a function of one number, its derivative, that one's derivative, "
        "then many numbers, then one program.",
        "`jax.jit(jax.vmap(jax.grad(jax.grad(f))))`.",
    ),
    check=check,
    after="Each transform takes a function and returns one, so the next transform takes that.",
)
