"""Questions to answer before the output is seen; the truth is computed when it is asked for.

A prediction is data and one function, like a puzzle. Its program is run in a namespace of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from jaxlens.course.evidence import evidence_pane
from jaxlens.course.namespace import run_source
from jaxlens.errors import OptionError, nearest
from jaxlens.render.document import Block, Code, Document, Fold
from jaxlens.views.view import View

Names = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Truth:
    """What the compiler said.

    Attributes:
        value: A number or a word.
        evidence: The view that shows it; None where none does.
        unit: The unit of a number.
    """

    value: float | str
    evidence: View | None = None
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Prediction:
    """One question.

    Attributes:
        id: Lesson and letter, "1.a".
        question: What to predict, in Markdown.
        code: The program in question; it is shown, and run before `truth`.
        truth: Asks JAX or XLA, given the names that `code` defined.
        why: One or two sentences shown with the truth.
        choices: The possible words; empty for a number.
        tolerance: Relative difference up to which a number counts as right.
    """

    id: str
    question: str
    code: str
    truth: Callable[[Names], Truth]
    why: str
    choices: tuple[str, ...] = ()
    tolerance: float = 0.0

    def names(self) -> Names:
        """Runs the program and returns what it defined."""
        return run_source(self.code, f"<cell {self.id}>")


@dataclass(frozen=True, eq=False, repr=False)
class Reply(View):
    """A prediction beside the truth.

    Attributes:
        prediction: The question.
        answer: What the learner wrote; "" for nothing yet.
    """

    prediction: Prediction
    answer: str = ""

    @cached_property
    def truth(self) -> Truth:
        """What the compiler says, computed on first use."""
        names = self.prediction.names()
        truth = self.prediction.truth(names)
        if truth.evidence is None:
            names.clear()  # functions refer to it: arrays would wait for the garbage collector
        return truth

    @property
    def right(self) -> bool | None:
        """Whether the answer is right; None without an answer."""
        return _right(self.prediction, self.truth.value, self.answer) if self.answer else None


def predictions() -> dict[str, Prediction]:
    """Returns all predictions by id, in the order of the course."""
    entries: dict[str, Prediction] = {}
    for path in sorted((Path(__file__).parent / "predictions").glob("part*.py")):
        module = import_module(f"jaxlens.course.predictions.{path.stem}")
        entries |= {entry.id: entry for entry in module.PREDICTIONS}
    return entries


def predict(id: str, answer: object = "") -> Reply:
    """Shows a question, or an answer beside the truth.

    Args:
        id: The prediction, "1.a".
        answer: A number or a word; nothing shows the question.

    Raises:
        OptionError: There is no such prediction, or the answer is no number or none of the
            choices.
    """
    from jaxlens.course import progress_file

    entries = predictions()
    if id not in entries:
        raise OptionError(f"there is no prediction {id!r}; {nearest(id, entries)}")
    prediction = entries[id]
    text = "" if answer in ("", ..., None) else str(answer).strip().strip("\"'")
    if text:
        _check(prediction, text)
        progress_file.record("predicted", id)
    reply = Reply(None, lambda: _document(reply), prediction, text)
    return reply


def _check(prediction: Prediction, text: str) -> None:
    if prediction.choices:
        if text.casefold() not in map(str.casefold, prediction.choices):
            choices = ", ".join(prediction.choices)
            raise OptionError(f"prediction {prediction.id} takes one of {choices}; got {text!r}")
        return
    try:
        float(text.replace(",", "").replace("_", ""))
    except ValueError:
        raise OptionError(f"prediction {prediction.id} takes a number; got {text!r}") from None


def _right(prediction: Prediction, value: float | str, text: str) -> bool:
    if isinstance(value, str):
        return text.casefold() == value.casefold()
    number = float(text.replace(",", "").replace("_", ""))
    return abs(number - value) <= prediction.tolerance * abs(value)


def _document(reply: Reply) -> Document:
    prediction, answer = reply.prediction, reply.answer
    unit = f" {reply.truth.unit}" if reply.truth.unit else ""
    truth = f"{_shown(reply.truth.value)}{unit}"
    program = Code("text", prediction.code.strip("\n"))
    evidence = reply.truth.evidence
    proof: tuple[Block, ...] = ()
    if evidence is not None:
        proof = (evidence_pane(evidence),)
    web = evidence.document.web if evidence is not None else None
    if not answer:
        choices = f" ({', '.join(prediction.choices)})" if prediction.choices else ""
        heading = f"Predict: {prediction.question}{choices}"
        how = f"Write your answer into the line below %%predict {prediction.id}."
        folded = Fold(f"The answer is {truth}. {prediction.why}", proof)
        program = replace(program, note=how)
        return Document("predict", heading, (program, Fold("Answer", (folded,))), web)
    verdict = "Right" if reply.right else "Not quite"
    heading = f"{verdict}: you said {answer}, it is {truth}. {prediction.why}"
    return Document("predict", heading, (program, *proof), web)


def _shown(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return (
        f"{value:,.4g}" if isinstance(value, float) and value != int(value) else f"{int(value):,}"
    )
