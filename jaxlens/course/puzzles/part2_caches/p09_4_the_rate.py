"""Puzzle 9.4."""

from itertools import count

import jaxlens
from jaxlens.course.puzzle import Facts, Function, Puzzle, WrongAnswer, by_jax, close, equal

_SIZES = count(8)  # every check has a size of its own, which no earlier one compiled for


def check(run: Function) -> Facts:
    import numpy as np

    x = np.linspace(1, 2, next(_SIZES), dtype=np.float32)
    with jaxlens.recompiles() as log:
        returned = run(x)
        listed = [] if returned is None else list(returned)
    results = [np.asarray(result) for result in listed]
    yield equal("results", len(results), 3, hint="`run` returns one result for each rate.")
    first = results[0]
    for rate, result in zip((0.1, 0.2, 0.3), results, strict=True):
        stale = rate != 0.1 and result.shape == x.shape and np.allclose(result, first)
        hint = "A function that reads `rate` while it is traced keeps the value of that moment."
        yield close(f"x * {rate}", result, x * rate, hint=hint if stale else "")
    hints = {
        0: "Nothing is jitted here: each operation is a program of its own.",
        3: "Each `rate` is in its program: pass it as a plain argument.",
    }
    hint = hints.get(log.compiles, "")
    again = [reason for reason in log.reasons if "new function object" in reason]
    if again and not any("closes over" in reason for reason in again):
        hint = "Each call of `jax.jit` on a new function starts with no programs: call it once."
    yield equal("compiles", log.compiles, 1, hint=hint, evidence=lambda: log)
    for rate, result in zip((0.1, 0.2, 0.3), listed, strict=True):
        yield by_jax(f"the result for {rate}", result)


PUZZLE = Puzzle(
    id="9.4",
    title="Three rates, one program",
    task="""\
`run` returns `x` times each of three rates, and compiles three programs for it. Keep `jax.jit`, and
let it compile only **one**.
""",
    starter="""\
def run(x):
    results = []
    for rate in (0.1, 0.2, 0.3):
        scale = jax.jit(lambda x: x * rate)
        results.append(scale(x))
    return results
""",
    solution="""\
@jax.jit
def scale(x, rate):
    return x * rate


def run(x):
    return [scale(x, rate) for rate in (0.1, 0.2, 0.3)]
""",
    wrong=(
        WrongAnswer(
            """\
rate = 0.1
scale = jax.jit(lambda x: x * rate)


def run(x):
    global rate
    results = []
    for rate in (0.1, 0.2, 0.3):
        results.append(scale(x))
    return results
""",
            "keeps the value of that moment",
        ),
        WrongAnswer(
            """\
from functools import partial


@partial(jax.jit, static_argnums=1)
def scale(x, rate):
    return x * rate


def run(x):
    return [scale(x, rate) for rate in (0.1, 0.2, 0.3)]
""",
            "a plain argument",
        ),
        WrongAnswer(
            """\
def run(x):
    results = []
    for rate in (0.1, 0.2, 0.3):
        scale = jax.jit(lambda x, rate: x * rate)
        results.append(scale(x, rate))
    return results
""",
            "starts with no programs",
        ),
        WrongAnswer(
            "def run(x):\n    return [x * rate for rate in (0.1, 0.2, 0.3)]\n",
            "Nothing is jitted here",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def run(x):
    jax.jit(lambda x: x * 2)(x)
    return [np.asarray(x) * rate for rate in (0.1, 0.2, 0.3)]
""",
            "NumPy did the work",
        ),
    ),
    hints=(
        "Put `%%recompiles` above a call of `run`: it names what is new each time.",
        "A lambda in a loop is a new function every time, and closes over another `rate`.",
        "Make the function once, before the loop, and give it `rate` as a second argument.",
    ),
    check=check,
    after="A number that a function takes is data; a number that it closes over is in the program.",
)
