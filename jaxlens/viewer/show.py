"""Returns what a verb shows of a capture.

What all questions of a call need is gathered with at most one compile. Views get facts, which are
computed here, and never a capture.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cache, partial, reduce
from operator import or_
from typing import Any, TypeVar

from jaxlens import progress
from jaxlens.answers import document, execute
from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.driver import Run
from jaxlens.ir.graph import paused
from jaxlens.question import Question
from jaxlens.questions import askable, of_verb, rows
from jaxlens.render.document import Ask, Document, Tabs
from jaxlens.report import Finding
from jaxlens.viewer.panes import PANES
from jaxlens.views.view import View

F = TypeVar("F")


def verb(name: str, capture: Capture, options: Any) -> View[Any]:
    """Returns what a verb shows of a capture; its facts are those of the question that it asks.

    Args:
        name: "jaxpr", "hlo", "compile", "explore" or "check".
        capture: The program; only `compile` runs it, and only with the option `run`.
        options: The verb's options; if they ask no question, the verb's own panes are shown.
    """
    panes, rest = PANES[name], of_verb(name)
    questions = [question for question in (panes, *rest) if question.is_asked(options)] or [panes]
    if name in (
        "jaxpr",
        "check",
    ):  # one answer: a question whose output has its own kind goes first
        questions = [min(questions, key=lambda question: not question.kind)]
    first, answer = questions[0], partial(_answered, name, capture, options, questions)
    if first is panes and name != "check":  # its facts are the figures of the program
        return View(capture, lambda: answer()[0])
    made = cache(answer)
    reported = None if first is panes else lambda: first.lens().report(made()[1])
    return View(capture, lambda: made()[0], know=lambda: made()[1], tell=reported)


def _answered(
    name: str, capture: Capture, options: Any, questions: Sequence[Question[Any]]
) -> tuple[Document, Any]:
    """Returns the document that answers questions, and the facts of the first."""
    keywords = {question: question.keywords(options) for question in questions}
    needs = reduce(or_, (row.needed(capture, own) for row, own in keywords.items()))
    runs = 0 if any(row.runs for row in keywords) else getattr(options, "run", 0)
    sayings = [*_of_run(capture, keywords)] if runs else []
    doing = progress.step(f"jaxlens reads {capture.program.name}")
    with doing, capture.gathering(needs):  # what is read and drawn here is, while XLA compiles
        run, said = execute(capture, runs), list[Finding]()
        with suppress(UnavailableError):
            _ = capture.jaxpr  # what the panes read traces no more, which runs the user's code
        answers = [(row, _facts(row, capture, own)) for row, own in keywords.items()]
        if run is not None:
            answers = [(row, _timed(facts, capture)) for row, facts in answers]
            for say in sayings:
                with suppress(UnavailableError):
                    said += say(run)
        with paused():
            shown = document(capture, questions[0].kind or name, answers, options.full, run, said)
    chained = any(isinstance(block, Tabs) and block.chain for block in shown.blocks)
    return replace(shown, asks=asks()) if chained else shown, answers[0][1]


def _of_run(
    capture: Capture, asked: Container[Question[Any]]
) -> Iterator[Callable[[Run], tuple[Finding, ...]]]:
    """Yields what makes sentences of a run: of the questions that are not asked."""
    for row in rows():
        if row.of_run and row not in asked:
            with suppress(UnavailableError):
                yield row.of_run(capture)


def asks() -> tuple[Ask, ...]:
    """Returns the questions that can be asked of a program, with the line that answers each."""
    return tuple(
        Ask(name, row.about.sentence, f"%%{row.verb} --{name}") for name, row in askable().items()
    )


def _facts(row: Question[F], capture: Capture, options: Mapping[str, Any]) -> F:
    """Takes the facts of an answer; those of most panes are read, and run nothing of the user's."""
    with paused() if row in PANES.values() and not row.runs else nullcontext():
        return row.lens().facts(capture, **options)


def _timed(facts: Any, capture: Capture) -> Any:
    """Adds the seconds of each instruction to an overview: of one more run, under the profiler."""
    from jaxlens.viewer.compile import Overview

    if not isinstance(facts, Overview):
        return facts
    try:
        return replace(facts, seconds=capture.driver.run_watched(1).instructions)
    except UnavailableError:  # no profiler
        return facts
