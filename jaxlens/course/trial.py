"""Tries a puzzle as its author must: the starter fails, wrong answers get their hint, the solution
passes, and what only looks like it does not.

Four cheats are made of every solution. "two faces" and "changed" are right for arrays, and leave
another program where they are traced: of zeros, or of other values. "remembered" gives later calls,
and programs, the result of the first call with arrays of these shapes; "one shape" returns zeros
for any other shapes.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

import jax
import numpy as np

from jaxlens.course import own
from jaxlens.course.check import judged, takes
from jaxlens.course.errors import user_error
from jaxlens.course.namespace import run_source
from jaxlens.course.puzzle import Function, Puzzle

Cheat = Callable[[], None]  # called where a function cheats
Pretence = Callable[[Function, Cheat], Function]


@dataclass(frozen=True, slots=True)
class TriedAnswer:
    """One answer that was tried.

    Attributes:
        id: The puzzle.
        kind: "starter", "wrong 1", "wrong 2", ..., "cheat 1", ..., "solution"; then the
            cheats made of the solution.
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
    for kind, answers in (("wrong", puzzle.wrong), ("cheat", puzzle.cheats)):
        for number, answer in enumerate(answers, 1):
            tried.append(_trial(puzzle, f"{kind} {number}", answer.code, answer.says, solved=False))
    tried.append(_trial(puzzle, "solution", puzzle.solution, "", solved=True))
    tried += [_pretended(puzzle, *entry) for entry in _PRETENCES.items()]
    return tried


def _pretended(puzzle: Puzzle, kind: str, pretend: Pretence) -> TriedAnswer:
    """Tries the solution with functions that pretend; a check that never notices must not exist."""
    start, used = time.perf_counter(), list[str]()

    def run() -> dict[str, Any]:
        names = run_answer(puzzle, puzzle.solution)
        for name in takes(puzzle):
            if callable(names.get(name)) and not isinstance(names[name], type):
                names[name] = wraps(names[name])(pretend(names[name], partial(used.append, name)))
        return names

    outcome = judged(puzzle, run)
    expected = not (used and outcome.solved)
    told = outcome.sentence if used else "it had no occasion to pretend"
    return TriedAnswer(puzzle.id, kind, expected, told, time.perf_counter() - start)


def _two_faced(other: Callable[[Function], Function], f: Function, cheat: Cheat) -> Function:
    faces = set[bool]()

    def face(*args: Any, **options: Any) -> Any:
        traced = _is_traced((args, options))
        faces.add(traced)
        if len(faces) == 2:
            cheat()
        return (other(f) if traced else f)(*args, **options)

    return face


def _of_one_shape(f: Function, cheat: Cheat) -> Function:
    first = list[Any]()

    def face(*args: Any, **options: Any) -> Any:
        first.append(jax.tree.map(np.shape, (args, options)))
        if first[0] == first[-1]:
            return f(*args, **options)
        cheat()
        return _nothing(f)(*args, **options)

    return face


def _remembering(f: Function, cheat: Cheat) -> Function:
    kept: dict[str, Any] = {}

    def face(*args: Any, **options: Any) -> Any:
        given = jax.tree.leaves((args, options))
        key = str([(np.shape(x), getattr(x, "dtype", x)) for x in given])
        if _is_traced(given) and key not in kept:
            return f(*args, **options)
        before, result = kept.setdefault(key, (given, None))
        if before is given:
            result = f(*args, **options)
            kept[key] = given, result
        elif _is_traced(given) or not all(map(np.array_equal, given, before)):
            cheat()
        return result

    return face


def _nothing(f: Function) -> Function:
    def zeros(*args: Any, **options: Any) -> Any:
        return jax.tree.map(jax.numpy.zeros_like, jax.eval_shape(f, *args, **options))

    return zeros


def _changed(f: Function) -> Function:
    return lambda *args, **options: jax.tree.map(lambda x: 2 * x + 1, f(*args, **options))


def _is_traced(tree: Any) -> bool:
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree))


_PRETENCES: dict[str, Pretence] = {
    "two faces": partial(_two_faced, _nothing),
    "changed": partial(_two_faced, _changed),
    "remembered": _remembering,
    "one shape": _of_one_shape,
}


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
    jax.config.update("jax_num_cpu_devices", 8)  # type: ignore[no-untyped-call]


def run_answer(puzzle: Puzzle, code: str) -> dict[str, Any]:
    """Runs the source of an answer as a cell would, after the course's solutions before it.

    Returns:
        All names of its namespace.
    """
    return run_source(code, f"<cell {puzzle.id}>", own.names_before(puzzle, None))
