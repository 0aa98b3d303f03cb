"""Puzzle 10.1."""

from itertools import count

import jaxlens
from jaxlens.course.puzzle import Facts, Function, Puzzle, WrongAnswer, by_jax, close, equal

_SIZES = count(3)  # every check has a size of its own, which no earlier one compiled for


def check(power: Function) -> Facts:
    import numpy as np

    x = np.full(next(_SIZES), 2, np.float32)
    with jaxlens.recompiles() as log:
        results = {n: power(x, n) for n in (*range(1, 9), 11)}
    hint = "Begin with ones and multiply by `x` n times. `lax.fori_loop` calls `body(i, value)`."
    for n in (1, 3, 8, 11):
        yield by_jax(f"x to the power of {n}", results[n])
        yield close(f"x to the power of {n}", results[n], x**n, hint=hint)
    hints = {
        0: "Nothing was jitted: keep `jax.jit`.",
        9: "As long as Python must know `n` while it traces, each `n` is a program.",
    }
    if sum("new function object" in reason for reason in log.reasons) > 1:
        hints[9] = "A function that is jitted anew in every call has an empty cache every time."
    compiles = log.compiles
    if hasattr(power, "lower"):  # `jax.jit(jnp.power)` counts as a single operation
        compiles = compiles or log.operations
    hint = hints.get(compiles, "")
    yield equal("compiles for nine exponents", compiles, 1, hint=hint, evidence=lambda: log)


PUZZLE = Puzzle(
    id="10.1",
    title="Eight exponents",
    task="""\
`n` is static, so `power` is compiled for each of eight exponents. Make `n` **data**: one program
for all of them.
""",
    starter="""\
from functools import partial


@partial(jax.jit, static_argnames="n")
def power(x, n):
    y = jnp.ones_like(x)
    for _ in range(n):
        y = y * x
    return y
""",
    solution="""\
@jax.jit
def power(x, n):
    return lax.fori_loop(0, n, lambda i, y: y * x, jnp.ones_like(x))
""",
    wrong=(
        WrongAnswer(
            """\
@jax.jit
def power(x, n):
    y = jnp.ones_like(x)
    for _ in range(n):
        y = y * x
    return y
""",
            "TracerIntegerConversionError",
        ),
        WrongAnswer(
            "def power(x, n):\n    return jax.jit(lambda x: x**n)(x)\n",
            "jitted anew in every call",
        ),
        WrongAnswer(
            """\
from functools import partial


@partial(jax.jit, static_argnums=1)
def power(x, n):
    return lax.fori_loop(0, n, lambda i, y: y * x, jnp.ones_like(x))
""",
            "Python must know `n`",
        ),
        WrongAnswer(
            """\
@jax.jit
def power(x, n):
    return lax.fori_loop(0, n, lambda i, y: y * x, x)
""",
            "x to the power of 1",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
same = jax.jit(lambda x: x)


def power(x, n):
    return np.asarray(same(x)) ** n
""",
            "NumPy did the work",
        ),
        WrongAnswer(
            """\
@jax.jit
def power(x, n):
    y = jnp.ones_like(x)
    for i in range(8):
        y = jnp.where(i < n, y * x, y)
    return y
""",
            "x to the power of 11",
        ),
    ),
    hints=(
        "`%jaxpr power(jnp.ones(3), 4)`: where is the loop? How many multiplications are there?",
        "`range(n)` needs a Python number. Which loop takes a number that comes with the call?",
        "`lax.fori_loop(0, n, lambda i, y: ..., start)` runs in the program, n times.",
    ),
    check=check,
    after="The loop is in the program now, and its length comes with each call.",
)
