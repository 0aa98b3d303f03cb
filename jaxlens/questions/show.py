"""What the verbs show of a capture: gathers what all that is asked needs, and composes documents.

This is as far as a capture goes: facts are taken from it here, and views get facts.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, reduce
from operator import or_
from typing import Any, TypeVar

from jaxlens.captures import Capture
from jaxlens.ir.driver import Run
from jaxlens.ir.facts import Program
from jaxlens.lenses.cost.roofline import CostFacts
from jaxlens.lenses.sharding.facts import Sharding
from jaxlens.questions.panes import PANES
from jaxlens.questions.question import Question
from jaxlens.questions.table import COST, LADDER, of_verb
from jaxlens.render.document import Block, Document, Tabs
from jaxlens.views.answer import Answer
from jaxlens.views.header import taken
from jaxlens.views.report_blocks import run_blocks

F = TypeVar("F")


def ask(question: Question[F], capture: Capture, **told: Any) -> Answer[F]:
    """One question asked of a capture; `told` is what it is told."""

    @cache
    def facts() -> F:
        return question.gathered_facts(capture, told)

    return Answer(
        capture,
        build=lambda: document(capture, question.kind or question.verb, [(question, facts())]),
        ask=lambda: question.lens().report(facts()),
        know=facts,
    )


def verb(name: str, capture: Capture, options: Any) -> Document:
    """What a verb shows of a capture.

    Args:
        name: "jaxpr", "hlo", "compile" or "explore".
        capture: The program; only `compile` runs it, and only if that is asked for.
        options: What is asked; by default the verb's own panes.
    """
    panes, rest = PANES[name], of_verb(name)
    asked = [question for question in (panes, *rest) if question.is_asked(options)] or [panes]
    if name == "jaxpr":  # one answer: what has an output of its own goes first
        asked = [min(asked, key=lambda question: not question.kind)]
    told = {question: question.told(options) for question in asked}
    if LADDER in told:
        *_, capture = told[LADDER]["rungs"] = capture.rungs()
    capture.gather(reduce(or_, (question.needed(capture, told[question]) for question in asked)))
    run = None if COST in told else execute(capture, getattr(options, "run", 0))
    answers = [(question, question.gathered_facts(capture, told[question])) for question in asked]
    return document(capture, asked[0].kind or name, answers, options.full, run)


def document(
    capture: Capture,
    kind: str,
    answers: Sequence[tuple[Question[Any], Any]],
    full: bool = False,
    run: Run | None = None,
) -> Document:
    """An output that answers questions.

    Args:
        capture: The program.
        kind: The name of the output.
        answers: Questions with their facts, in order.
        full: Leave nothing out.
        run: Executions that no question measured.
    """
    program, blocks, web = capture.program, list[Block](), None
    for question, facts in answers:
        lens = question.lens()
        shown = lens.blocks(facts, full)
        blocks += shown
        run = facts.run() or run if isinstance(facts, CostFacts) else run
        program = _spread(program, facts) if isinstance(facts, Sharding) else program
        if web is None and (kind != "compile" or _has_panes(shown)):
            web = lens.web(capture.links, facts)
    timed = any(question.name == "times" for question, _ in answers)
    return Document(kind, taken(program), (*run_blocks(run), *blocks), web, timed=timed)


def _spread(program: Program, found: Sharding) -> Program:
    """The program on as many devices as it is for: a `shard_map` may name more than its inputs."""
    return replace(program, target=replace(program.target, devices=found.devices))


def _has_panes(blocks: Sequence[Block]) -> bool:
    return any(isinstance(block, Tabs) for block in blocks)


def execute(capture: Capture, n: int) -> Run | None:
    """What n executions took; None where none was asked for."""
    return capture.driver.run(n) if n else None
