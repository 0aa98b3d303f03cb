"""Puzzle 12.1."""

from dataclasses import replace
from typing import Any

import jaxlens
from jaxlens.course.puzzle import Fact, Facts, Proof, Puzzle, WrongAnswer, close, edited


def check(rules: dict[str, Any]) -> Facts:
    import jax
    import jax.numpy as jnp

    hints = {
        "sin": "Near 0, sin(x) rises as fast as x does: its slope there is 1.",
        "exp": "The slope of exp is the value of exp.",
        "log": "The slope of log(x) is steep near 0 and flattens as x grows.",
        "tanh": "tanh flattens to both sides. With y = tanh(x), its slope is 1 - y * y.",
    }
    for name, hint in hints.items():
        rule = rules.get(name)
        if not callable(rule):
            yield Fact(f"rule of {name}", "a function", type(rule).__name__, False)
            continue
        f = getattr(jnp, name)
        for x in (0.7, 2.0, 8.0):
            fact = close(f"slope of {name} at {x}", rule(x), jax.grad(f)(x), rtol=1e-5, hint=hint)
            yield replace(fact, evidence=Proof(jaxlens.jaxpr, (jax.grad(f), x)))


SOLUTION = """\
rules = {
    "sin": lambda x: jnp.cos(x),
    "exp": lambda x: jnp.exp(x),
    "log": lambda x: 1 / x,
    "tanh": lambda x: 1 - jnp.tanh(x) ** 2,
}
"""

PUZZLE = Puzzle(
    id="12.1",
    title="Four slopes",
    task="""\
Write the derivative of each function as a function of `x`. JAX checks each line at a few points.
""",
    starter="""\
rules = {
    "sin": lambda x: ...,
    "exp": lambda x: ...,
    "log": lambda x: ...,
    "tanh": lambda x: ...,
}
""",
    solution=SOLUTION,
    wrong=(
        WrongAnswer(edited(SOLUTION, ("jnp.cos(x)", "-jnp.cos(x)")), "its slope there is 1"),
        WrongAnswer(edited(SOLUTION, ("jnp.exp(x)", "x * jnp.exp(x - 1)")), "the value of exp"),
        WrongAnswer(edited(SOLUTION, ("1 / x", "jnp.exp(x)")), "flattens as x grows"),
        WrongAnswer(edited(SOLUTION, ("1 - jnp.tanh(x) ** 2", "1 - jnp.tanh(x)")), "1 - y * y"),
    ),
    cheats=(
        WrongAnswer(
            """\
def difference(f):
    return lambda x: (f(x + 1e-3) - f(x - 1e-3)) / 2e-3


rules = {name: difference(getattr(jnp, name)) for name in ("sin", "exp", "log", "tanh")}
""",
            "slope of",
        ),
    ),
    hints=(
        "`%jaxpr jax.grad(jnp.sin)(0.7)`: which function does JAX compute besides the sine?",
        "A table of derivatives has all four. For tanh, write y for its value.",
        "cos(x), exp(x), 1 / x and 1 - tanh(x) ** 2.",
    ),
    check=check,
    after="JAX has such a rule for each of its operations.",
)
