"""Questions to answer before the output is seen; the truth is computed when it is asked for.

A prediction is data and one function, like a puzzle. Its program is run in a namespace of its own.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from jaxlens.course.namespace import run_source
from jaxlens.course.puzzle import evidence_pane
from jaxlens.errors import OptionError, missing_package, nearest
from jaxlens.ir.lessons import LESSONS
from jaxlens.render.document import Block, Code, Document, Findings, Fold
from jaxlens.report import Finding, count
from jaxlens.views.view import View

Names = dict[str, Any]
_WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()
_NUMBERS = {word: str(n) for n, word in enumerate(_WORDS)}
_NUMBERS |= {"none": "0", "no": "0", "once": "1", "twice": "2"}
_FIGURE = r"\(*+-?(?:\d++\.?\d*+|\.\d++)(?:e[+-]?\d++)?\)*+"
_FIGURES = re.compile(
    rf"(?P<sum>{_FIGURE}(?: *+[-+*/] *+{_FIGURE})*+) *+(?P<unit>[a-z%][a-z %/]*+)?"
)
_NEAR = 0.1  # relative difference
_PREFIX = re.compile("([kmg])(i?)(?:b|flop)")


@dataclass(frozen=True, slots=True)
class Truth:
    """What the compiler said.

    Attributes:
        value: A number or a word.
        evidence: The view that shows it; None where none does.
        unit: The unit of a number.
    """

    value: float | str
    evidence: View[Any] | None = None
    unit: str = ""

    def __str__(self) -> str:
        value = self.value
        if not isinstance(value, str):
            value = f"{value:,.4g}" if value != int(value) else f"{int(value):,}"
        return f"{value} {self.unit}".strip()


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
        """Runs the program and returns what it defined.

        Raises:
            PackageError: JAX, which every prediction asks, cannot be imported.
        """
        try:
            import_module("jax")
        except ImportError as error:
            raise missing_package(f"prediction {self.id}", error) from None
        return run_source(self.code, f"<cell {self.id}>")


@dataclass(frozen=True, eq=False, repr=False)
class Reply(View[Any]):
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
        return _right(self.prediction, self.truth, self.answer) if self.answer else None


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
    from jaxlens.course import attempts

    entries = predictions()
    if id not in entries:
        raise OptionError(f"there is no prediction {id!r}; {nearest(id, entries)}")
    prediction = entries[id]
    text = "" if answer in ("", ..., None) else str(answer).strip().strip("\"'")
    if text:
        understood(prediction, text)
    reply = Reply(None, lambda: _document(reply), prediction, text)
    attempts.begin(id)
    if text:
        attempts.note(attempts.Attempt(id, bool(reply.right), text))
    return reply


def recall(lesson: int) -> View[Any]:
    """Shows three questions from before a lesson, first those that the learner had wrong.

    Args:
        lesson: Its number, from 2.

    Raises:
        OptionError: There is no such lesson, or none before it.
    """
    from jaxlens.course import attempts

    if not 1 < lesson <= len(LESSONS):
        raise OptionError(f"there are questions from before lessons 2 to {len(LESSONS)}")
    entries = predictions()
    given = attempts.read(Path(attempts.FILE))
    chosen = [entries[id] for id in attempts.to_ask_again(lesson, entries, given)]

    def document() -> Document:
        blocks: list[Block] = []
        for prediction in chosen:
            how = f"Your answer: %predict {prediction.id} ..."
            blocks.append(Findings((Finding(_asked(prediction)),)))
            blocks.append(Code("text", prediction.code.strip("\n"), note=how))
        heading = f"Before lesson {lesson}, {count(len(chosen), 'question')} from earlier ones"
        return Document("predict", heading, tuple(blocks))

    return View(None, document)


def understood(prediction: Prediction, text: str) -> str | tuple[float, str]:
    """Returns what an answer means: one of the choices, or a number with its unit.

    A choice may be cut short while it is clear. A number may be a word or a sum, and the unit left
    out.

    Raises:
        OptionError: It means neither.
    """
    if prediction.choices:
        for means in (_same, _begins, _holds):
            meant = [choice for choice in prediction.choices if means(choice, text)]
            if len(meant) == 1:
                return meant[0]
        choices = ", ".join(f"`{choice}`" for choice in prediction.choices)
        raise OptionError(f"prediction {prediction.id} takes one of {choices}; got {text!r}")
    match = _FIGURES.fullmatch(re.sub("[,_]", "", _figures(text)))
    with suppress(SyntaxError, ArithmeticError):
        if match is not None:  # figures, + - * / and brackets, but no power
            found = eval(compile(match["sum"].strip(), "<answer>", "eval"), {"__builtins__": {}})
            return float(found), match["unit"] or ""
    raise OptionError(f"prediction {prediction.id} takes a number, such as 12; got {text!r}")


def _words(text: str) -> list[str]:
    """Returns an answer in small letters, without articles."""
    return [w for w in text.casefold().split() if w not in ("a", "an", "the", "about")]


def _figures(text: str) -> str:
    """Returns an answer with its numbers in figures."""
    return " ".join(_NUMBERS.get(word, word) for word in _words(text))


def _same(choice: str, text: str) -> bool:
    return _figures(choice) == _figures(text)


def _begins(choice: str, text: str) -> bool:
    return " ".join(_words(choice)).startswith(" ".join(_words(text)) or " ")


def _holds(choice: str, text: str) -> bool:
    return bool(_words(text)) and set(_words(text)) <= set(_words(choice))


def _right(prediction: Prediction, truth: Truth, text: str, within: float = 0.0) -> bool:
    meant, value = understood(prediction, text), truth.value
    if isinstance(value, str) or isinstance(meant, str):
        return meant == value
    number, unit = meant
    number *= _scale(unit or truth.unit) / _scale(truth.unit)
    return abs(number - value) <= max(prediction.tolerance, within) * abs(value)


def _scale(unit: str) -> int:
    """Returns what the prefix of a unit stands for: 1,000,000 for "MB"."""
    match = _PREFIX.match(unit.casefold())
    return (1024 if match[2] else 1000) ** "_kmg".index(match[1]) if match else 1


def _document(reply: Reply) -> Document:
    prediction, answer = reply.prediction, reply.answer
    truth = str(reply.truth)
    program = Code("text", prediction.code.strip("\n"))
    evidence = reply.truth.evidence
    proof: tuple[Block, ...] = () if evidence is None else (evidence_pane(evidence),)
    web = None if evidence is None else evidence.document.web
    if not answer:
        how = f"Write your answer in place of the dots, or: %predict {prediction.id} your answer"
        told = f"is {truth}. {prediction.why}"
        answers = [
            (choice, f"{'Right' if choice == truth else 'No'}: it {told}")
            for choice in prediction.choices
        ] or [("Answer", f"The answer {told}")]
        folds = [Fold(label, (Fold(text, proof),)) for label, text in answers]
        heading = f"Predict: {_asked(prediction)}"
        return Document("predict", heading, (replace(program, note=how), *folds), web)
    near = _right(prediction, reply.truth, answer, within=_NEAR)
    verdict = "Right" if reply.right else "Near" if near else "Not quite"
    heading = f"{verdict}: you said {answer}, it is {truth}. {prediction.why}"
    return Document("predict", heading, (program, *proof), web)


def _asked(prediction: Prediction) -> str:
    choices = f" ({', '.join(prediction.choices)})" if prediction.choices else ""
    return f"{prediction.question}{choices}"
