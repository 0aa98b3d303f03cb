"""The view of `--against` and `jaxlens.compare`: what changed, then both programs' diffs."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from jaxlens.answers import execute
from jaxlens.captures import Capture
from jaxlens.ir.graph import Node
from jaxlens.links.match.across_edits import Pairs
from jaxlens.links.match.instruction_fates import after_edit
from jaxlens.questions.compare.causes import sides
from jaxlens.questions.compare.facts import NAMES, Comparison, Names
from jaxlens.questions.compare.facts import facts as compare_facts
from jaxlens.questions.compare.report import report
from jaxlens.render.document import Block, Diff, DiffGroup, DiffRow, Document, Tab, TableBlock, Tabs
from jaxlens.report import count
from jaxlens.views.header import header_line, where
from jaxlens.views.jitted_calls import as_written
from jaxlens.views.links import weave
from jaxlens.views.listings import jaxpr as jaxpr_lines
from jaxlens.views.passes.hlo_diff import diff as change_diff
from jaxlens.views.passes.rows import changed_attributes
from jaxlens.views.report_blocks import report_blocks, run_blocks, run_table

_MOST = 300  # rows of equations
_LARGE = 1000  # equations from which panes are not linked


def linked(comparison: Comparison) -> Sequence[str]:
    """Returns the stages to link; none of a large program, where links are slow."""
    if len(comparison.equations.same) >= _LARGE:
        return ()
    return ("jaxpr", "optimized") if comparison.instructions is not None else ("jaxpr",)


def blocks(comparison: Comparison, names: Names, full: bool = False) -> list[Block]:
    """Returns findings, tables, and the diffs of the jaxprs and of the optimised programs.

    Args:
        comparison: The comparison of two programs.
        names: Their titles.
        full: Whether to leave nothing out.
    """
    shown = equations(comparison.equations, names, full)
    tabs = [Tab("Equations", (shown,), True, key="equations")]
    if comparison.instructions is not None:
        shown = _unlinked(change_diff(after_edit(comparison.instructions), *names, full=full))
        tabs.append(Tab("Optimised program", (shown,), True, key="programs"))
        if comparison.equations.equal:  # what differs is shown first
            tabs.reverse()
    return [*report_blocks(report(comparison, names)), Tabs(tuple(tabs))]


def equations(pairs: Pairs, names: Names = NAMES, full: bool = False) -> Diff:
    """Returns the diff of two jaxprs: differing equations in program order, then equal ones."""
    left, right = jaxpr_lines.equations(pairs.before), jaxpr_lines.equations(pairs.after)
    differing = list(_differing(pairs))
    most = len(differing) if full else _MOST
    some = len(pairs.same) if full else max(most - len(differing), 0)
    rows = [
        DiffRow(
            left[old.id] if old else None,
            right[new.id] if new else None,
            "added" if old is None else "removed" if new is None else "rewritten",
            _difference(old, new) if old and new else "",
        )
        for old, new in differing[:most]
    ]
    same = [DiffRow(left[id], None, "same") for id in islice(pairs.same, some)]
    groups = [
        DiffGroup(f"What differs ({len(differing):,})", tuple(rows)),
        DiffGroup(f"The same ({len(pairs.same):,})", tuple(same), open=False),
    ]
    lost = len(differing) - len(rows) + len(pairs.same) - len(same)
    note = f"{count(lost, 'more row')} left out: full=True shows all." if lost else ""
    return _unlinked(Diff(*names, tuple(group for group in groups if group.rows), note))


def _unlinked(diff: Diff) -> Diff:
    """Returns a diff without ids on the left, which a page would take for ids on the right."""

    def unlinked(row: DiffRow) -> DiffRow:
        return replace(row, left=replace(row.left, id="")) if row.left else row

    groups = (replace(group, rows=tuple(map(unlinked, group.rows))) for group in diff.groups)
    return replace(diff, groups=tuple(groups))


def _differing(pairs: Pairs) -> Iterator[tuple[Node | None, Node | None]]:
    """Yields pairs of equations that differ, in the order after; removed ones at their place."""
    old = {node.id: node for node in pairs.before.nodes()}
    heads = {head: tail for tail, head in pairs.changed.items()}
    new, removed = set(pairs.new), set(pairs.gone)
    removed_after: defaultdict[str, list[Node]] = defaultdict(list)
    anchor = ""
    for id, node in old.items():
        if id in removed:
            removed_after[anchor].append(node)
        else:
            anchor = pairs.images.get(id, anchor)
    for node in removed_after[""]:
        yield node, None
    for node in pairs.after.nodes():
        if node.id in heads:
            yield old[heads[node.id]], node
        elif node.id in new:
            yield None, node
        for other in removed_after.get(node.id, ()):
            yield other, None


def _difference(old: Node, new: Node) -> str:
    """Returns what differs between two equations of the same primitive."""
    if str(old.type) != str(new.type):
        return f"{old.type} became {new.type}"
    return changed_attributes(old, new) or ("its body differs" if new.regions else "")


def changed(name: str, before: Capture, after: Capture, options: Any) -> Document:
    """Returns the document that a verb shows of a program compared to another one."""
    if name == "compile":
        run = execute(after, options.run)
        whole = compare(before, after, full=options.full)
        return replace(whole, blocks=(*run_blocks(run), *whole.blocks))
    called = sides(before.program, after.program)
    facts = compare_facts(before, after, compiled=False)
    shown = tuple(blocks(facts, called, options.full))
    return Document(name, header_line(after.program, as_written(after)), shown)


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
    measured = []
    if run:
        how = f"{run.how[:1].upper()}{run.how[1:]}."
        runs = zip(called, (run.before, run.after), strict=True)
        measured = [TableBlock(run_table(dict(runs), how), asked=True)]
    answer, *rest = blocks(facts, called, full)
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
    stages = linked(facts)
    web = weave(after.links, stages) if stages else None
    every = (answer, *measured, *rest)
    return Document("compile", f"{first}, against {other}", every, web, tuple(deviations))
