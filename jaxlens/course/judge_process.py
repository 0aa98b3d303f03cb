"""Judges answers in a process of their own, so that none of them can hang or end this one.

A kernel has one such process: it is started with the first answer and ends after minutes without
another. It answers two requests for each answer: the judgement first, then the evidence for it,
each within the puzzle's limits. `judging.py` is what runs in it. Where JAX cannot be imported, as
in a browser, which has no processes, answers are judged in this one and without limits.
"""

import importlib.util
import os
import pickle
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jaxlens import progress
from jaxlens.course.check import GivenAnswer, Judgement, unsolved
from jaxlens.course.library import puzzle
from jaxlens.course.limits import Limit, LimitError, used
from jaxlens.course.namespace import names_of_lessons, needed

if TYPE_CHECKING:
    from jaxlens.stages.child.child import Child

_COMMAND = (sys.executable, "-m", "jaxlens.course.judging")
_START = 120.0  # seconds that the process may take to import JAX
_KEPT = 350_000_000  # bytes of a process that waits for another answer


_judge: "Child | None" = None


def judge_cell(
    id: str, code: str, earlier: Sequence[str], names: Mapping[str, Any], number: int
) -> Judgement:
    """Judges a cell of this kernel's notebook.

    Args:
        id: The puzzle.
        code: The source under `%%puzzle`.
        earlier: The sources of the cells that were run before it.
        names: The notebook's names.
        number: The number of the cell.
    """
    global _judge
    values = _values(code, earlier, names)
    cell = f"%%puzzle {id}\n{code}"
    answer = GivenAnswer(id, cell, tuple(earlier), os.getcwd(), values, number)
    if not has_jax():
        return _judged_here(answer)
    try:
        if _judge is None or _judge.code is not None:
            forget()
            _judge = _started()
        with progress.step(f"judging puzzle {id} in another process"):
            verdict = _verdict(_judge, answer)
            if verdict.ends:
                verdict = _with_evidence(_judge, answer, verdict)
    except BaseException:  # an interrupt, which the process does not hear
        forget()
        raise
    if _judge.code is not None or used(_judge.pid)[0] > _KEPT:
        forget()
        _judge = _started()  # it imports JAX while the learner thinks
    return verdict


def forget() -> None:
    """Ends the process of this kernel."""
    global _judge
    child, _judge = _judge, None
    if child is not None:
        child.end()


def judge_apart(answers: Iterable[GivenAnswer]) -> Generator[Judgement]:
    """Judges answers one after another in a process of their own, without evidence."""
    if not has_jax():
        yield from map(_judged_here, answers)
        return
    child = _started()
    try:
        for answer in answers:
            if child.code is not None:
                child = _started()
            yield _verdict(child, answer)
    finally:
        child.end()


def _values(code: str, cells: Sequence[str], names: Mapping[str, Any]) -> dict[str, bytes]:
    """Pickles what an answer needs of a notebook's names and can have by value.

    Functions and classes of the notebook travel as source, in `GivenAnswer.earlier`.
    """
    values, common = dict[str, bytes](), names_of_lessons()

    def is_known(name: str) -> bool:
        if name in names and name not in common:
            data = _by_value(names[name])
            if data:
                values[name] = data
        return name in values or name in common

    for _ in needed(code, cells, is_known):
        pass
    return values


def _by_value(value: Any) -> bytes:
    try:
        data = pickle.dumps(value)
    except Exception:  # of the user's classes too
        return b""
    return b"" if b"__main__" in data else data


def has_jax() -> bool:
    """Whether JAX can be imported."""
    return all(importlib.util.find_spec(name) for name in ("jax", "jaxlib"))


def _judged_here(answer: GivenAnswer) -> Judgement:
    from jaxlens.course.judging import Judge

    return Judgement(**Judge()({"answer": answer}))


def _started() -> "Child":
    import jax

    from jaxlens.stages.child.child import Child, child_environment

    settings: Any = jax.config
    return Child(_COMMAND, child_environment(settings.jax_platforms or "", absent=False))


def _verdict(child: "Child", answer: GivenAnswer) -> Judgement:
    entry = puzzle(answer.id)
    try:
        child.ask({}, _START)
        return Judgement(**child.ask({"answer": answer}, watch=Limit(child.pid, entry.seconds)))
    except LimitError as error:
        why: str = str(error)
    except TimeoutError:
        why = f"the process that judges it took more than {_START:g} s to start"
    except ChildProcessError as ending:
        why = f"it ended the process that judged it {ending}"
    child.end()
    return Judgement.of(unsolved(entry, why))


def _with_evidence(child: "Child", answer: GivenAnswer, verdict: Judgement) -> Judgement:
    try:
        limit = Limit(child.pid, puzzle(answer.id).seconds)
        return Judgement(**child.ask({"evidence": True}, watch=limit))
    except (LimitError, ChildProcessError):
        child.end()
        return verdict
