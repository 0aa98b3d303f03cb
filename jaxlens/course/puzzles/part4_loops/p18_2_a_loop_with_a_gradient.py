"""Puzzle 18.2."""

import jax
import jax.numpy as jnp
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
    edited,
    equal,
)


def check(root: Function) -> Facts:
    a = jnp.float32(3)
    hint = "Too few steps for this number? Ten are enough."
    for number in (3.0, 50.0):
        right = np.sqrt(np.float32(number))
        found = as_program(root, jnp.float32(number))
        if isinstance(found, tuple | list):
            hint = "`scan` returns a pair: the last carry comes first."
        yield close(f"root of {number:g}", found, right, hint=hint)
    shown = Proof(jaxlens.jaxpr, (root, a))
    primitives = jaxlens.receipt(root, a).primitives
    loops = [name for name in ("scan", "while") if name in primitives]
    divisions = primitives.get("div", 0)
    hint = (
        f"Python ran the loop while JAX traced: its step is there {divisions} times."
        if divisions > 1
        else "Keep Newton's step, in a loop of the program."
    )
    yield at_least("loops in the program", len(loops), 1, hint=hint, evidence=shown)
    try:
        gradient = jax.jit(jax.grad(root))(a)
    except ValueError as error:
        if "Reverse-mode" not in str(error):
            raise
        hint = (
            "JAX cannot know how many steps a `while` takes, so it cannot keep what they need. "
            "Ten steps are enough for any of these numbers: say so."
        )
        yield equal("gradient", "an error", "a number", hint=hint, evidence=shown)
        return
    hint = (
        "No cotangent came through: is there a stop_gradient in it?"
        if float(gradient) == 0
        else "The derivative of a root is 1 / (2 * root)."
    )
    yield close("gradient at 3", gradient, 0.5 / np.sqrt(np.float32(3)), hint=hint)


_FIXED = """\
def root(a):
    return lax.fori_loop(0, 10, lambda i, x: 0.5 * (x + a / x), a)
"""

PUZZLE = Puzzle(
    id="18.2",
    title="A loop with a gradient",
    task="""\
`root` stops when it is near enough, and `jax.grad(root)` is an error. Ten steps are enough for any
number from 1 to 100. Make `jax.grad(root)(3.0)` work, with a loop **in the program**.
""",
    starter="""\
def root(a):
    def too_far(x):
        return abs(x * x - a) > 1e-5 * a

    def step(x):
        return 0.5 * (x + a / x)

    return lax.while_loop(too_far, step, a)
""",
    solution=_FIXED,
    wrong=(
        WrongAnswer(
            """\
def root(a):
    x = a
    for _ in range(10):
        x = 0.5 * (x + a / x)
    return x
""",
            "its step is there 10 times",
        ),
        WrongAnswer(
            """\
def root(a):
    def step(state):
        i, x = state
        return i + 1, 0.5 * (x + a / x)

    return lax.while_loop(lambda state: state[0] < 10, step, (0, a))[1]
""",
            "cannot know how many steps",
        ),
        WrongAnswer(
            edited(_FIXED, ("root(a):\n", "root(a):\n    a = lax.stop_gradient(a)\n")),
            "stop_gradient",
        ),
        WrongAnswer(
            """\
def root(a):
    return lax.scan(lambda x, _: (0.5 * (x + a / x), None), a, None, length=10)
""",
            "the last carry comes first",
        ),
        WrongAnswer(
            "def root(a):\n    return jnp.sqrt(a)\n",
            "Keep Newton's step",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def root(a):
    x = lax.stop_gradient(jnp.sqrt(a))
    return lax.fori_loop(0, 10, lambda i, x: x + 0 * a, x)
""",
            "No cotangent came through",
        ),
    ),
    hints=(
        "`%jaxpr root(3.0)`: which primitive is the loop, and does it say how often it runs?",
        "`lax.fori_loop` with numbers for both ends, and `lax.scan`, have a length in the jaxpr.",
        "`lax.fori_loop(0, 10, ..., a)`; its body takes the number of the step first.",
    ),
    check=check,
    after="The backward pass has a row for each step, so the number of steps must be known.",
)
