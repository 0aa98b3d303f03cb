"""Builds the document that a verb shows of a capture.

What all questions of a call need is gathered with at most one compile. Views get facts, which are
computed here, and never a capture.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, reduce
from operator import or_
from typing import Any, TypeVar

from jaxlens import progress
from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.driver import Run
from jaxlens.question import Question
from jaxlens.questions import of_verb
from jaxlens.questions.cost.roofline import CostFacts
from jaxlens.questions.sharding.facts import Sharding
from jaxlens.render.document import Block, Document, Tabs
from jaxlens.viewer.panes import PANES
from jaxlens.views.answer import Answer
from jaxlens.views.header import header_line
from jaxlens.views.jitted_calls import as_written
from jaxlens.views.report_blocks import run_blocks

F = TypeVar("F")


def ask(question: Question[F], capture: Capture, **options: Any) -> Answer[F]:
    """Answers one question about a capture; `options` are the question's."""

    @cache
    def facts() -> F:
        return question.gathered_facts(capture, options)

    return Answer(
        capture,
        build=lambda: document(capture, question.kind or question.verb, [(question, facts())]),
        ask=lambda: question.lens().report(facts()),
        know=facts,
    )


def verb(name: str, capture: Capture, options: Any) -> Document:
    """Returns the document that a verb shows of a capture.

    Args:
        name: "jaxpr", "hlo", "compile" or "explore".
        capture: The program; only `compile` runs it, and only with the option `run`.
        options: The verb's options; if they ask no question, the verb's own panes are shown.
    """
    panes, rest = PANES[name], of_verb(name)
    questions = [question for question in (panes, *rest) if question.is_asked(options)] or [panes]
    if name == "jaxpr":  # one answer: a question whose output has its own kind goes first
        questions = [min(questions, key=lambda question: not question.kind)]
    keywords = {question: question.keywords(options) for question in questions}
    for row, own in keywords.items():
        capture = row.prepared(capture, own)
    needs = reduce(or_, (row.needed(capture, own) for row, own in keywords.items()))
    doing = progress.step(f"jaxlens reads {capture.program.name}")
    with doing, capture.gathering(needs):  # what is read and drawn here is, while XLA compiles
        is_run = any(row.runs for row in keywords)
        run = None if is_run else execute(capture, getattr(options, "run", 0))
        answers = [(row, row.lens().facts(capture, **own)) for row, own in keywords.items()]
        if run is not None:
            answers = [(row, _timed(facts, capture)) for row, facts in answers]
        return document(capture, questions[0].kind or name, answers, options.full, run)


def document(
    capture: Capture,
    kind: str,
    answers: Sequence[tuple[Question[Any], Any]],
    full: bool = False,
    run: Run | None = None,
) -> Document:
    """Returns the document that answers questions.

    Args:
        capture: The program.
        kind: The name of the output.
        answers: Questions with their facts, in order.
        full: Whether nothing is left out.
        run: Executions that no question measured.
    """
    program, blocks, web = capture.program, list[Block](), None
    for question, facts in answers:
        lens = question.lens()
        shown = lens.shown(facts, full)
        blocks += shown
        run = facts.run() or run if isinstance(facts, CostFacts) else run
        if isinstance(facts, Sharding):  # a `shard_map` may use more devices than the inputs do
            program = replace(program, target=replace(program.target, devices=facts.devices))
        if web is None and (kind != "compile" or any(isinstance(block, Tabs) for block in shown)):
            web = lens.web(capture.links, facts)
    timed = any(question.name == "times" for question, _ in answers)
    title = header_line(program, as_written(capture))
    return Document(kind, title, (*run_blocks(run), *blocks), web, timed=timed)


def _timed(facts: Any, capture: Capture) -> Any:
    """Adds the seconds of each instruction to an overview: of one more run, under the profiler."""
    from jaxlens.viewer.compile import Overview

    if not isinstance(facts, Overview):
        return facts
    try:
        return replace(facts, seconds=capture.driver.run_watched(1).instructions)
    except UnavailableError:  # no profiler
        return facts


def execute(capture: Capture, n: int) -> Run | None:
    """Executes the program n times and returns the measured run; None if n is 0."""
    return capture.driver.run(n) if n else None
