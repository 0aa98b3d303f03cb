"""Answers the question of a row: gathers what its facts need, and makes the document of them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from jaxlens.captures import Capture
from jaxlens.ir.driver import Run
from jaxlens.question import Question
from jaxlens.render.document import Block, Document, Tabs
from jaxlens.report import Finding
from jaxlens.views.header import header_line
from jaxlens.views.jitted_calls import as_written
from jaxlens.views.report_blocks import run_blocks
from jaxlens.views.view import View

F = TypeVar("F")


def ask(question: Question[F], capture: Capture, **options: Any) -> View[F]:
    """Answers one question about a capture; `options` are the question's."""

    @cache
    def facts() -> F:
        return question.gathered_facts(capture, options)

    return View(
        capture,
        build=lambda: document(capture, question.kind or question.verb, [(question, facts())]),
        know=facts,
        tell=lambda: question.lens().report(facts()),
    )


def document(
    capture: Capture,
    kind: str,
    answers: Sequence[tuple[Question[Any], Any]],
    full: bool = False,
    run: Run | None = None,
    of_run: Sequence[Finding] = (),
) -> Document:
    """Returns the document that answers questions.

    Args:
        capture: The program.
        kind: The name of the output.
        answers: Questions with their facts, in order.
        full: Whether nothing is left out.
        run: Executions that no question measured.
        of_run: What questions say of these.
    """
    program, blocks, web = capture.program, list[Block](), None
    for question, facts in answers:
        lens = question.lens()
        shown = lens.shown(facts, full)
        blocks += shown
        run = lens.run(facts) or run
        if devices := lens.devices(facts):  # a `shard_map` may use more than the inputs do
            program = replace(program, target=replace(program.target, devices=devices))
        if web is None and (kind != "compile" or any(isinstance(block, Tabs) for block in shown)):
            web = lens.web(capture.links, facts)
    timed = any(question.name == "times" for question, _ in answers)
    title = header_line(program, as_written(capture))
    return Document(kind, title, (*run_blocks(run, of_run), *blocks), web, timed=timed)


def execute(capture: Capture, n: int) -> Run | None:
    """Executes the program n times and returns the measured run; None if n is 0."""
    return capture.driver.run(n) if n else None
