"""Puzzle 27.1."""

import time
from typing import Any

from jaxlens.course.puzzle import Fact, Facts, Function, Puzzle, WrongAnswer


def slow_product() -> tuple[Function, Any, float]:
    """Returns a compiled function, its argument, and the seconds that it takes here.

    The matrix is made larger until dispatching the function is much faster than its work.
    """
    import jax
    import jax.numpy as jnp

    f = jax.jit(lambda x: x @ x * 0.001)
    x, seconds = jnp.ones((512, 512)), 0.0
    for size in (512, 1024, 2048, 4096, 8192):
        x = jnp.ones((size, size))
        f(x).block_until_ready()
        seconds = min(_seconds(f, x) for _ in range(3))
        if seconds > 0.02:
            break
    return f, x, seconds


def _seconds(f: Function, x: Any) -> float:
    start = time.perf_counter()
    f(x).block_until_ready()
    return time.perf_counter() - start


def check(timed: Function) -> Facts:
    f, x, real = slow_product()
    found = []
    for _ in range(3):
        seconds = timed(f, x)
        if not isinstance(seconds, float | int):
            hint = "`timed` must return the seconds, as a number."
            yield Fact("what timed returns", "a number", type(seconds).__name__, False, hint)
            return
        found.append(float(seconds))
        f(x).block_until_ready()  # nothing of this turn is left for the next
        real = min(real, _seconds(f, x))  # beside it, as other work comes and goes
    measured = min(found)
    hint = (
        "This is how long it took to ask for the work. Who waits for the result?"
        if measured < real / 4
        else "This is more than the work itself. Is it in seconds, and is `f` called once?"
    )
    # In words, so that a saved lesson has no times of the machine that it was made on.
    bounds = ((0.25, "less than a quarter"), (20, "all of it"))
    share = measured / real
    actual = next((text for bound, text in bounds if share < bound), "over twenty times that")
    holds = real / 4 <= measured < real * 20
    yield Fact("what you measured", "the time until it is done", actual, holds, hint)
    few = x[:64, :64]
    f(few).block_until_ready()
    shorter = 0 < min(float(timed(f, few)) for _ in range(3)) < measured / 2
    hint = "Hardly any work took you as long: it is not the work that you waited for."
    actual = "a part of that" if shorter else "as much"
    yield Fact("what you measure of 64 rows", "a part of that", actual, shorter, hint)


PUZZLE = Puzzle(
    id="27.1",
    title="Measure the work",
    task="""\
`timed(f, x)` should return the seconds that `f(x)` takes. It is given a jitted function that is
compiled already and takes several milliseconds, yet it returns a fraction of one. Correct it.
""",
    starter="""\
import time


def timed(f, x):
    start = time.perf_counter()
    f(x)
    return time.perf_counter() - start
""",
    solution="""\
import time


def timed(f, x):
    start = time.perf_counter()
    f(x).block_until_ready()
    return time.perf_counter() - start
""",
    wrong=(
        WrongAnswer(
            """\
import time


def timed(f, x):
    start = time.perf_counter()
    f(x).block_until_ready()
    time.perf_counter() - start
""",
            "must return the seconds",
        ),
        WrongAnswer(
            """\
import time


def timed(f, x):
    start = time.perf_counter()
    y = f(x)
    seconds = time.perf_counter() - start
    y.block_until_ready()
    return seconds
""",
            "ask for the work",
        ),
        WrongAnswer(
            """\
import time


def timed(f, x):
    start = time.perf_counter()
    f(x).block_until_ready()
    return (time.perf_counter() - start) * 1000
""",
            "Is it in seconds",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
import time


def timed(f, x):
    start = time.perf_counter()
    f(x)
    time.sleep(0.2)
    return time.perf_counter() - start
""",
            "not the work that you waited for",
        ),
    ),
    hints=(
        "Ask `f(x).is_ready()`: when you stop the clock, the work is not done yet.",
        "The clock must stop when the result is there. Which array do you have to wait for?",
        "An array has a method `block_until_ready`; call it on the result, before the clock stops.",
    ),
    check=check,
    seconds=20.0,
    after="A call returns when the work is handed over. Without a wait, you time only that.",
)
