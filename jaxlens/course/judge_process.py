"""Judges answers in a process of their own, so that none of them can hang or end this one.

A kernel has one such process: it is started with the first answer and ends after minutes without
another. It answers two requests for each answer: the judgement first, then the evidence for it,
each within the puzzle's limits. `judging.py` is what runs in it.
"""

import os
import pickle
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from jaxlens import progress
from jaxlens.course.check import Outcome, unsolved
from jaxlens.course.library import puzzle
from jaxlens.course.limits import Limit, LimitError, used
from jaxlens.course.namespace import names_of_lessons, needed
from jaxlens.stages.child.child import Child, child_environment

_COMMAND = (sys.executable, "-m", "jaxlens.course.judging")
_START = 120.0  # seconds that the process may take to import JAX
_KEPT = 350_000_000  # bytes of a process that waits for another answer


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """One `%%puzzle` cell of a notebook.

    Attributes:
        id: The puzzle.
        code: The cell.
        earlier: The sources of the code cells above it, in order.
        folder: Where the notebook is, with the learner's own JAX.
        values: What is known of the names that it needs of these cells, pickled.
        number: The number of its cell; 0 where it was not run.
    """

    id: str
    code: str
    earlier: tuple[str, ...]
    folder: str
    values: Mapping[str, bytes] = field(default_factory=dict)
    number: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class Judgement:
    """What the process says of an answer: `str(verdict)` is its text, a notebook shows its HTML.

    Attributes:
        solved: Whether every required fact holds.
        sentence: The judgement in one sentence.
        html: A fragment of HTML, with the evidence.
        brief: The text form.
        whole: The text with all that `brief` leaves out.
        printed: What the check printed as it called the answer's functions.
        ends: Whether the cell ended by itself as it ran, so that it can be run elsewhere.
    """

    solved: bool
    sentence: str
    html: str
    brief: str
    whole: str
    printed: str = ""
    ends: bool = False

    @classmethod
    def of(cls, outcome: Outcome, printed: str = "", ends: bool = False) -> "Judgement":
        """Returns what can be shown of a judgement where its lenses are not."""
        texts = outcome.html(), outcome.text(), outcome.text(full=True)
        return cls(outcome.solved, outcome.sentence, *texts, printed, ends)

    def text(self, *, full: bool = False) -> str:
        """Returns the verdict as text; `full` as in `View.text`."""
        return self.whole if full else self.brief

    def __str__(self) -> str:
        return self.brief

    def __repr__(self) -> str:
        return self.brief

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": self.brief, "text/html": self.html}


_judge: Child | None = None


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


def _started() -> Child:
    settings: Any = jax.config
    return Child(_COMMAND, child_environment(settings.jax_platforms or "", absent=False))


def _verdict(child: Child, answer: GivenAnswer) -> Judgement:
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


def _with_evidence(child: Child, answer: GivenAnswer, verdict: Judgement) -> Judgement:
    try:
        limit = Limit(child.pid, puzzle(answer.id).seconds)
        return Judgement(**child.ask({"evidence": True}, watch=limit))
    except (LimitError, ChildProcessError):
        child.end()
        return verdict
