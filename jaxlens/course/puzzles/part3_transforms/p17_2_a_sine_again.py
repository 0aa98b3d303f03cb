"""Puzzle 17.2."""

import jax
import numpy as np

import jaxlens
from jaxlens.course.puzzle import (
    Facts,
    Function,
    Proof,
    Puzzle,
    WrongAnswer,
    as_program,
    at_least,
    close,
    equal,
)


def check(f: Function) -> Facts:
    x = np.linspace(-1.0, 2.0, 9, dtype=np.float32)
    gradient = jax.grad(f)
    right = np.cos(np.sin(x)) * np.cos(x)
    yield close("f(x)", as_program(f, x), np.sin(np.sin(x)).sum())
    yield close("the gradient", gradient(x), right, rtol=1e-3)
    primitives = jaxlens.receipt(gradient, x).primitives
    proof = Proof(jaxlens.jaxpr, (gradient, x))
    again = sum(primitives.get(name, 0) for name in ("checkpoint", "remat", "remat2"))
    unmarked = "No part of the program is marked as one to compute again."
    hint = "It is marked, but its values are kept: look at what stands outside and what inside."
    hint = hint if again else unmarked
    sines = primitives.get("sin", 0)
    yield at_least("sines in the gradient", sines, 3, hint=hint, evidence=proof)
    kept = sum(value.bytes for value in jaxlens.memory(gradient, x).residuals)
    hint = "Something between the two sines is still kept." if again else unmarked
    yield equal("bytes kept beside x", kept, 0, hint=hint, evidence=proof)


PUZZLE = Puzzle(
    id="17.2",
    title="A sine again",
    task="""\
The gradient of `f` keeps two arrays of the forward pass. Change `f` so that it keeps **nothing**
but `x`, which was there before, and computes the inner sine again.
""",
    starter="""\
def f(x):
    return jnp.sin(jnp.sin(x)).sum()
""",
    solution="""\
@jax.checkpoint
def f(x):
    return jnp.sin(jnp.sin(x)).sum()
""",
    wrong=(
        WrongAnswer(
            """\
sine = jax.checkpoint(jnp.sin)


def f(x):
    return sine(sine(x)).sum()
""",
            "its values are kept",
        ),
        WrongAnswer(
            """\
def f(x):
    policy = jax.checkpoint_policies.everything_saveable
    return jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum(), policy=policy)(x)
""",
            "its values are kept",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def f(x):
    first = jnp.sin(x)
    again = jnp.sin(x)
    return jnp.sin(first).sum() + 0 * again.sum()
""",
            "marked as one to compute again",
        ),
    ),
    hints=(
        "Run `%jaxpr jax.grad(f)(jnp.ones(3))` and count the sines and the cosines.",
        "`jax.checkpoint` marks a function whose values are not kept.",
        "Put `@jax.checkpoint` above `f`.",
    ),
    check=check,
    after="One more sine, two arrays fewer: you pay for memory with time.",
    seconds=20.0,
)
