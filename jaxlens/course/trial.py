"""Tries a puzzle as its author must: the starter fails, wrong answers get their hint, the solution
passes.
"""

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from jaxlens.course import own
from jaxlens.course.check import judged
from jaxlens.course.errors import user_error
from jaxlens.course.namespace import run_source
from jaxlens.course.puzzle import Puzzle


@dataclass(frozen=True, slots=True)
class TriedAnswer:
    """One answer that was tried.

    Attributes:
        id: The puzzle.
        kind: "starter", "wrong 1", "wrong 2", ... or "solution".
        as_expected: Whether the answer was judged as its author says.
        sentence: What the learner would be told.
        seconds: How long the answer and its check took.
    """

    id: str
    kind: str
    as_expected: bool
    sentence: str
    seconds: float


def trials(puzzle: Puzzle) -> list[TriedAnswer]:
    """Tries every answer that a puzzle comes with."""
    tried = [_trial(puzzle, "starter", puzzle.starter, "", solved=False)]
    for number, wrong in enumerate(puzzle.wrong, 1):
        tried.append(_trial(puzzle, f"wrong {number}", wrong.code, wrong.says, solved=False))
    tried.append(_trial(puzzle, "solution", puzzle.solution, "", solved=True))
    return tried


def _trial(puzzle: Puzzle, kind: str, code: str, says: str, solved: bool) -> TriedAnswer:
    start = time.perf_counter()
    outcome = judged(puzzle, partial(run_answer, puzzle, code))
    expected = outcome.solved == solved and says in outcome.sentence
    try:
        outcome.prove()
        outcome.compute()
        sentence = outcome.sentence
    except Exception as error:  # of the lens
        sentence, expected = user_error(error).text, False
    return TriedAnswer(puzzle.id, kind, expected, sentence, time.perf_counter() - start)


def set_devices() -> None:
    """Makes this CPU eight devices, as the lesson on devices does; before JAX starts."""
    import jax

    jax.config.update("jax_num_cpu_devices", 8)  # type: ignore[no-untyped-call]


def run_answer(puzzle: Puzzle, code: str, folder: str | None = None) -> dict[str, Any]:
    """Runs the source of an answer as a cell would, in a namespace of its own.

    Args:
        puzzle: The puzzle that it answers.
        code: Its source.
        folder: Where the learner's own JAX is; None takes the course's solutions.

    Returns:
        All names of the namespace.
    """
    before = own.names_before(puzzle, folder)
    return run_source(code, f"<cell {puzzle.id}>", before)
