"""The view of `--against` and `jaxlens.compare`: what changed, then both programs' diffs."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from jaxlens.ir.graph import Node
from jaxlens.lenses.compare import report as compare
from jaxlens.lenses.compare.facts import NAMES, Comparison, Names
from jaxlens.links.match.across_edits import Pairs
from jaxlens.links.match.instruction_fates import after_edit
from jaxlens.render.document import Block, Diff, DiffGroup, DiffRow, Tab, Tabs
from jaxlens.report import Table, count
from jaxlens.views.listings import jaxpr as jaxpr_lines
from jaxlens.views.passes.side_by_side import diff as change_diff
from jaxlens.views.report_blocks import report_blocks

_MOST = 300  # rows of equations
_LARGE = 1000  # equations from which panes are not linked


def linked(found: Comparison) -> Sequence[str]:
    """Returns the stages to link; none of a large program, where links are slow."""
    if len(found.equations.same) >= _LARGE:
        return ()
    return ("jaxpr", "optimized") if found.instructions is not None else ("jaxpr",)


def blocks(
    found: Comparison, names: Names, seconds: Sequence[Table] = (), full: bool = False
) -> list[Block]:
    """Returns findings, tables, and the diffs of the jaxprs and of the optimised programs.

    Args:
        found: The comparison of two programs.
        names: Their titles.
        seconds: Tables of measured times.
        full: Whether to leave nothing out.
    """
    tabs = [Tab("Equations", (equations(found.equations, names, full),), True, key="equations")]
    if found.instructions is not None:
        shown = _unlinked(change_diff(after_edit(found.instructions), *names, full=full))
        tabs.append(Tab("Optimised program", (shown,), True, key="programs"))
    return [*report_blocks(compare.report(found, names, seconds)), Tabs(tuple(tabs))]


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
    kept = [DiffRow(left[id], None, "same") for id in islice(pairs.same, some)]
    groups = [
        DiffGroup(f"What differs ({len(differing):,})", tuple(rows)),
        DiffGroup(f"The same ({len(pairs.same):,})", tuple(kept), open=False),
    ]
    lost = len(differing) - len(rows) + len(pairs.same) - len(kept)
    note = f"{count(lost, 'more row')} left out: full=True shows all." if lost else ""
    return _unlinked(Diff(*names, tuple(group for group in groups if group.rows), note))


def _unlinked(diff: Diff) -> Diff:
    """Returns a diff without ids on the left, which a page would take for ids on the right."""
    groups = []
    for group in diff.groups:
        rows = [
            replace(row, left=replace(row.left, id="") if row.left else None) for row in group.rows
        ]
        groups.append(replace(group, rows=tuple(rows)))
    return replace(diff, groups=tuple(groups))


def _differing(pairs: Pairs) -> Iterator[tuple[Node | None, Node | None]]:
    """Yields pairs of equations that differ, in the order after; removed ones at their place."""
    old = {node.id: node for node in pairs.before.nodes()}
    heads = {head: tail for tail, head in pairs.changed.items()}
    new, gone = set(pairs.new), set(pairs.gone)
    lost: defaultdict[str, list[Node]] = defaultdict(list)
    anchor = ""
    for id, node in old.items():
        if id in gone:
            lost[anchor].append(node)
        else:
            anchor = pairs.images.get(id, anchor)
    for node in lost[""]:
        yield node, None
    for node in pairs.after.nodes():
        if node.id in heads:
            yield old[heads[node.id]], node
        elif node.id in new:
            yield None, node
        for other in lost.get(node.id, ()):
            yield other, None


def _difference(old: Node, new: Node) -> str:
    """Returns what differs between two equations of the same primitive."""
    if str(old.type) != str(new.type):
        return f"{old.type} became {new.type}"
    every = {**old.attrs, **new.attrs}
    names = [name for name in every if old.attrs.get(name) != new.attrs.get(name)]
    return f"another {', '.join(names)}" if names else "its body differs"
