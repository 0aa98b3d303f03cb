"""Builds the documents that compare two captures."""

from dataclasses import replace
from typing import Any

from jaxlens.answers import execute
from jaxlens.captures import Capture
from jaxlens.questions.compare import view as compare_view
from jaxlens.questions.compare.causes import sides
from jaxlens.questions.compare.facts import NAMES, Comparison, Names
from jaxlens.questions.compare.facts import facts as compare_facts
from jaxlens.questions.compare.tables import runs
from jaxlens.render.document import Document, TableBlock
from jaxlens.views.header import header_line, where
from jaxlens.views.jitted_calls import as_written
from jaxlens.views.links import weave
from jaxlens.views.report_blocks import run_blocks


def changed(name: str, before: Capture, after: Capture, options: Any) -> Document:
    """Returns the document that a verb shows of a program compared to another one."""

    if name == "compile":
        run = execute(after, options.run)
        shown = compare(before, after, full=options.full)
        return replace(shown, blocks=(*run_blocks(run), *shown.blocks))
    called = sides(before.program, after.program)
    facts = compare_facts(before, after, compiled=False)
    blocks = compare_view.blocks(facts, called, options.full)
    return Document(name, header_line(after.program, as_written(after)), tuple(blocks))


def compare(
    before: Capture,
    after: Capture,
    names: Names | None = None,
    facts: Comparison | None = None,
    *,
    run: Any = None,
    full: bool = False,
) -> Document:
    """Returns the document of a comparison of two programs.

    Args:
        before: One capture.
        after: The other.
        names: Their names in headings; by default taken from what differs between them.
        facts: The facts of the comparison, if they are already computed.
        run: Measured times of both (`stages/child/recompile.py`), if they were run.
        full: Whether nothing is left out.
    """
    facts = facts or compare_facts(before, after)
    called = sides(before.program, after.program, names)
    measured = [TableBlock(runs(run, called), asked=True)] if run else []
    answer, *rest = compare_view.blocks(facts, called, full)
    written = as_written(after)
    first = header_line(after.program, written)
    other = header_line(before.program, as_written(before))
    if header_line(replace(after.program, flags=before.program.flags), written) == other:
        other = "the same call before" if called == NAMES else called[0]
    elif header_line(replace(after.program, target=before.program.target), written) == other:
        other = f"the same call {where(before.program.target)}"
    deviations = (
        f"({name}) {sentence}"
        for name, capture in zip(called, (before, after), strict=True)
        for sentence in capture.deviations
    )
    stages = compare_view.linked(facts)
    web = weave(after.links, stages) if stages else None
    blocks = (answer, *measured, *rest)
    return Document("compile", f"{first}, against {other}", blocks, web, tuple(deviations))
