"""Puzzle 27.2."""

from typing import Any

import numpy as np

from jaxlens.course.puzzle import Facts, Function, Puzzle, WrongAnswer, at_most, close, equal
from jaxlens.course.puzzles.part7_running.p27_1_measure_the_work import slow_product

TURNS = 10


def check(train: Function) -> Facts:
    import jax

    _, x, _ = slow_product()
    # Of ones it makes twos, threes, ...: the losses are 1, 2, 3, ...
    program = jax.jit(lambda w, x: (w @ x * (1.0 / len(x)) + 1, w.mean()))
    program(x, x)[1].block_until_ready()  # compiled before the first turn
    last: list[Any] = []
    idle = 0

    def step(w: Any, x: Any) -> Any:
        nonlocal idle
        # If the turn before is done already, somebody waited for it, and the device had to wait
        # for this call.
        idle += bool(last) and last[-1].is_ready()
        result = program(w, x)
        last.append(result[1])
        return result

    losses = train(step, x, x, TURNS)
    hint = "It must return the losses of all turns, in a list or an array."
    yield close("the losses", _numbers(losses), np.arange(1, TURNS + 1), hint=hint)
    yield equal("calls of step", len(last), TURNS, hint="Each turn is a call of `step`.")
    hint = "In these turns the device had nothing to do: what in your loop needs a loss's value?"
    yield at_most("turns that began on an idle device", idle, 3, hint=hint)


def _numbers(losses: Any) -> Any:
    return np.asarray([float(loss) for loss in np.atleast_1d(losses)])


PUZZLE = Puzzle(
    id="27.2",
    title="Do not wait in the loop",
    task="""\
`step` returns new weights and a loss. In each turn `float(loss)` waits until the device is done,
and then the device waits for Python. Change `train` so that it returns the same losses, and the
device **always has the next step queued**.
""",
    starter="""\
def train(step, w, x, turns):
    losses = []
    for _ in range(turns):
        w, loss = step(w, x)
        losses.append(float(loss))
    return losses
""",
    solution="""\
def train(step, w, x, turns):
    losses = []
    for _ in range(turns):
        w, loss = step(w, x)
        losses.append(loss)
    return [float(loss) for loss in losses]
""",
    wrong=(
        WrongAnswer(
            """\
def train(step, w, x, turns):
    losses = []
    for _ in range(turns):
        w, loss = step(w, x)
        losses.append(np.asarray(loss))
    return losses
""",
            "needs a loss's value",
        ),
        WrongAnswer(
            """\
def train(step, w, x, turns):
    for _ in range(turns):
        w, loss = step(w, x)
    return float(loss)
""",
            "losses of all turns",
        ),
    ),
    cheats=(
        WrongAnswer(
            """\
def train(step, w, x, turns):
    return [turn + 1.0 for turn in range(turns)]
""",
            "calls of step",
        ),
    ),
    hints=(
        "Which line of the loop cannot go on before the device is done?",
        "A list can hold arrays that are not ready yet. When are the numbers needed?",
        "Append the loss itself, and turn all of them into numbers after the loop.",
    ),
    check=check,
    seconds=20.0,
    after="Python runs ahead and the device works through the queue. You waited once, at the end.",
)
