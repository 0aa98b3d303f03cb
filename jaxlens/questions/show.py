"""What the verbs show of a capture: gathers what all that is asked needs, and composes documents.

This is as far as a capture goes: facts are taken from it here, and views get facts.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, reduce
from operator import or_
from typing import Any, TypeVar

from jaxlens.captures import Capture
from jaxlens.ir.driver import Needs, Run
from jaxlens.ir.facts import Program
from jaxlens.lenses.compare.causes import sides
from jaxlens.lenses.compare.facts import NAMES, Comparison, Names
from jaxlens.lenses.compare.facts import of as compare_facts
from jaxlens.lenses.compare.tables import Runs, runs, times
from jaxlens.lenses.cost.roofline import Facts as CostFacts
from jaxlens.lenses.program.fusion_change import GLANCE_LIMIT, TRACE_LIMIT
from jaxlens.lenses.sharding.facts import Sharding
from jaxlens.lenses.subject import subject_of
from jaxlens.lenses.times.facts import instructions
from jaxlens.questions.question import Question
from jaxlens.questions.table import AGAINST, COST, FUSION, LADDER, of_verb
from jaxlens.render.document import Block, Document, TableBlock, Tabs
from jaxlens.render.link_data import Web
from jaxlens.views.answer import Answer
from jaxlens.views.header import taken
from jaxlens.views.links import weave
from jaxlens.views.passes.pane import beside
from jaxlens.views.questions import compare as compare_view
from jaxlens.views.verbs import compile as compile_view
from jaxlens.views.verbs import explore as explore_view
from jaxlens.views.verbs import hlo as hlo_view
from jaxlens.views.verbs import jaxpr as jaxpr_view
from jaxlens.views.verbs import overview

F = TypeVar("F")
_SMALL = 4_000  # instructions, up to which linking panes costs next to nothing beside an answer
_OVERVIEW_LINKS = ("jaxpr", "optimized", "kernels")


def ask(question: Question[F], capture: Capture, **told: Any) -> Answer[F]:
    """One question asked of a capture; `told` is what it is told."""

    @cache
    def facts() -> F:
        return question.facts(capture, told)

    return Answer(
        capture,
        build=lambda: document(capture, question.kind or question.verb, [(question, facts())]),
        ask=lambda: question.parts().report(facts()),
        know=facts,
    )


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
    parts = [(question.parts(), facts) for question, facts in answers]
    shown = [block for part, facts in parts for block in part.blocks(facts, full)]
    program = capture.program
    for _, facts in answers:
        run = facts.run() or run if isinstance(facts, CostFacts) else run
        program = _spread(program, facts) if isinstance(facts, Sharding) else program
    drawn = next((part.web(facts) for part, facts in parts if part.web), None)
    stages = {stage for part, facts in parts for stage in part.linked(facts)}
    web = drawn or _web(capture, kind, stages, shown)
    timed = any(question.name == "times" for question, _ in answers)
    return Document(kind, taken(program), (*_measured(run), *shown), web, timed=timed)


def _spread(program: Program, found: Sharding) -> Program:
    """The program on as many devices as it is for: a `shard_map` may name more than its inputs."""
    return replace(program, target=replace(program.target, devices=found.devices))


def _web(capture: Capture, kind: str, stages: set[str], blocks: Sequence[Block]) -> Web | None:
    """Links the panes of an output, where that costs next to nothing beside the answers."""
    if kind == "compile":
        size = instructions(capture) if stages and _has_panes(blocks) else None
        stages = stages if size is not None and size <= _SMALL else set()
    return weave(capture, stages) if stages else None


def _has_panes(blocks: Sequence[Block]) -> bool:
    return any(isinstance(block, Tabs) for block in blocks)


def _measured(run: Run | None) -> list[Block]:
    return [TableBlock(compile_view.measured(run), asked=True)] if run else []


def jaxpr(capture: Capture, options: Any) -> Document:
    """What `%%jaxpr` shows; traces, and does no more."""
    asked = [question for question in of_verb("jaxpr") if question.is_asked(options)]
    # One answer alone: those with an output of their own go before what stands in that of a jaxpr.
    question = min(asked, key=lambda question: not question.kind, default=None)
    if question is None:
        blocks = jaxpr_view.blocks(subject_of(capture, "jaxpr"), options, options.full)
        web = weave(capture, ("jaxpr",))
        return Document("jaxpr", taken(capture.program), tuple(blocks), web)
    if question.name == AGAINST.name:
        called = sides(options.against.program, capture.program)
        found = compare_facts(options.against, capture, compiled=False)
        blocks = compare_view.blocks(found, called, (), options.full)
        return Document("jaxpr", taken(capture.program), tuple(blocks))
    told: dict[str, Any] = {}
    if question is LADDER:
        *_, capture = told["rungs"] = capture.rungs()
    answers = [(question, question.facts(capture, told))]
    return document(capture, question.kind or "jaxpr", answers, options.full)


def hlo(capture: Capture, options: Any) -> Document:
    """What `%%hlo` shows; compiles, but for an early stage alone."""
    programs = capture.links.programs()  # held: fates and comparisons number each program once
    needs = FUSION.needed(capture) if options.fusion else Needs()
    if options.passes or options.diff or options.pass_name:
        needs |= Needs(passes="all")
    elif not (options.stage or options.fusion):
        needs |= Needs(passes="fusing")
    capture.gather(needs)
    facts = hlo_view.facts(capture)
    blocks = hlo_view.blocks(facts, options, options.full)
    web = None
    if options.fusion:
        limit = TRACE_LIMIT if options.full else GLANCE_LIMIT
        shown = document(
            capture, "hlo", [(FUSION, FUSION.facts(capture, {"limit": limit}))], options.full
        )
        blocks, web = [*blocks, *shown.blocks], shown.web
    if not blocks:
        # Without the dumps of all passes few fates could be told.
        web = weave(capture, hlo_view.LINKED, fates=capture.has_all_passes)
        blocks = hlo_view.default(facts, options.full, beside(capture.links, web) if web else None)
    del programs
    return Document("hlo", taken(capture.program), tuple(blocks), web)


def compile(capture: Capture, options: Any) -> Document:
    """What `%%compile` shows; compiles once, and runs the program if that is asked for."""
    asked = [question for question in of_verb("compile") if question.is_asked(options)]
    if AGAINST in asked:
        run = execute(capture, options.run)
        changed = compared(options.against, capture, full=options.full)
        return replace(changed, blocks=(*_measured(run), *changed.blocks))
    if not asked:
        run = execute(capture, options.run)
        blocks = compile_view.blocks(overview.facts(capture), options.full)
        web = weave(capture, _OVERVIEW_LINKS)
        return Document("compile", taken(capture.program), (*_measured(run), *blocks), web)
    capture.gather(reduce(or_, (question.needed(capture) for question in asked)))
    run = None if COST in asked else execute(capture, options.run)
    answers = [(question, question.facts(capture, question.told(options))) for question in asked]
    return document(capture, "compile", answers, options.full, run)


def execute(capture: Capture, n: int) -> Run | None:
    """What n executions took; None where none was asked for."""
    return capture.driver.run(n) if n else None


def explore(capture: Capture, options: Any) -> Document:
    """What `%%explore` shows; compiles, and runs nothing."""
    capture.gather(Needs(passes="fusing"))
    web = weave(capture, explore_view.LINKED)
    atoms = beside(capture.links, web) if web else None
    blocks = explore_view.blocks(overview.facts(capture), options.full, atoms)
    return Document("explore", taken(capture.program), tuple(blocks), web)


def compared(
    before: Capture,
    after: Capture,
    names: Names | None = None,
    *,
    found: Comparison | None = None,
    run: Runs | None = None,
    full: bool = False,
) -> Document:
    """A comparison of two programs as an output of its own.

    Args:
        before: One capture.
        after: The other.
        names: What they are called in headings; by default after what tells them apart.
        found: The two compared, where they were already.
        run: What running both took, where that was asked for.
        full: Leave nothing out.
    """
    facts = found or compare_facts(before, after)
    called = names or sides(before.program, after.program)
    took = [TableBlock(runs(run, called), asked=True)] if run else []
    seconds = times(before, after, called) if facts.instructions is not None else []
    answer, *rest = compare_view.blocks(facts, called, seconds, full)
    first, other = taken(after.program), taken(before.program)
    if taken(replace(after.program, flags=before.program.flags)) == other:
        other = "the same call before" if called == NAMES else called[0]
    deviations = (
        f"({name}) {sentence}"
        for name, capture in zip(called, (before, after), strict=True)
        for sentence in capture.deviations
    )
    stages = compare_view.linked(facts)
    web = weave(after, stages) if stages else None
    blocks = (answer, *took, *rest)
    return Document("compile", f"{first}, against {other}", blocks, web, tuple(deviations))
