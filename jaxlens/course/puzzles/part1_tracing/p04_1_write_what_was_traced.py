"""Puzzle 4.1."""

import numpy as np

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

_WANTED = {"add": 1, "mul": 2, "sin": 1}


def check(f: Function) -> Facts:
    import jax.numpy as jnp

    x = jnp.array([0.5, -1.0, 2.0, 3.0])
    right = np.asarray(x) ** 2 + 2 * np.sin(np.asarray(x))
    hint = "Begin at the last line: `e` is `b` plus `d`. What is `b`, and what is `d`?"
    value = as_program(f, x)
    if isinstance(value, tuple):
        hint = "`in (e,)` only says that there is one result: return `e`, not a tuple."
    yield close("the value", value, right, hint=hint)
    found = dict(sorted(jaxlens.receipt(f, x).primitives.items()))
    proof = Proof(jaxlens.jaxpr, (f, x))
    yield equal("equations", found, _WANTED, hint=_hint(found), evidence=proof)


def _hint(found: dict[str, int]) -> str:
    powers = [name for name in ("integer_pow", "square", "pow") if name in found]
    if powers:
        return f"A power is an operation of its own, `{powers[0]}`. The first line is a product."
    if found.get("sin", 0) > 1:
        return "Tracing writes down what you call: `jnp.sin(x)` twice is two equations."
    if found.get("add", 0) > 1:
        return "`d` is a product with the number 2, and the only sum is in the last line."
    if "jit" in found:
        return "A call of a jitted function is an equation with a jaxpr of its own: write it out."
    return "Compare the two line by line: each operation of yours is one equation."


PUZZLE = Puzzle(
    id="4.1",
    title="Write what was traced",
    task="""\
Write a function `f(x)` that has this jaxpr. The letters and the order of independent lines do not
matter; the equations do.

    { lambda ; a:f32[4]. let
      b:f32[4] = mul a a
      c:f32[4] = sin a
      d:f32[4] = mul 2.0:f32[] c
      e:f32[4] = add b d
    in (e,) }
""",
    starter="""\
def f(x):
    return jnp.sin(x)
""",
    solution="""\
def f(x):
    return x * x + 2 * jnp.sin(x)
""",
    wrong=(
        WrongAnswer("def f(x):\n    return x**2 + 2 * jnp.sin(x)\n", "A power is an operation"),
        WrongAnswer(
            "def f(x):\n    return x * x + jnp.sin(x) + jnp.sin(x)\n", "twice is two equations"
        ),
        WrongAnswer("def f(x):\n    return (x * x + 2 * jnp.sin(x),)\n", "not a tuple"),
        WrongAnswer("def f(x):\n    return 2 * (x * x + jnp.sin(x))\n", "Begin at the last line"),
    ),
    cheats=(
        WrongAnswer(
            """\
def f(x):
    return x * x + 2 * jnp.sin(x) + 0.0 * x
""",
            "the only sum is in the last line",
        ),
    ),
    hints=(
        "Run `%jaxpr f(jnp.ones(4))` on what you have, and compare it with the wanted one.",
        "Read it backwards: `e` is a sum. Put the right-hand sides of `b` and `d` in their place.",
        "`mul a a` is `x * x`, and `mul 2.0 c` is twice the sine.",
    ),
    check=check,
    after="A jaxpr is your function with a name for every step, so you can read it back.",
)
