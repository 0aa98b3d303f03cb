"""The view of `--against` and `jaxlens.compare`: what changed, then both programs' diffs."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from jaxlens.ir.graph import Node
from jaxlens.links.match.across_edits import Pairs, is_literal
from jaxlens.links.match.instruction_fates import after_edit
from jaxlens.questions.compare import report as compare
from jaxlens.questions.compare.facts import NAMES, Comparison, Names
from jaxlens.render.document import Block, Diff, DiffGroup, DiffRow, Tab, Tabs
from jaxlens.report import count
from jaxlens.views.listings import jaxpr as jaxpr_lines
from jaxlens.views.passes.hlo_diff import diff as change_diff
from jaxlens.views.passes.rows import changed_attributes
from jaxlens.views.report_blocks import report_blocks

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
    return [*report_blocks(compare.report(comparison, names)), Tabs(tuple(tabs))]


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
    return changed_attributes(old, new) or _literals(old, new) or "its body differs"


def _literals(old: Node, new: Node) -> str:
    """Returns the literals that differ, where their number is the same."""
    was, now = ([x for x in node.operands if is_literal(x)] for node in (old, new))
    if len(was) != len(now):
        return ""
    pairs = (
        f"{a.rpartition(':')[0]} became {b.rpartition(':')[0]}"
        for a, b in zip(was, now, strict=True)
        if a != b
    )
    return ", ".join(pairs)
