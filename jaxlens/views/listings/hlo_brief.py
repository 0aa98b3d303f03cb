"""Renders HLO in short lines, without the folded pieces, for diffs and for panes."""

from collections.abc import Mapping, Sequence
from functools import partial

from jaxlens.ir.facts import Input
from jaxlens.ir.graph import Module, Node
from jaxlens.render.document import Line, Listing
from jaxlens.render.html.lazy_lines import listed
from jaxlens.views.listings import hlo as hlo_lines
from jaxlens.views.listings.hlo import Plan, lean
from jaxlens.views.listings.lines_by_id import LinesById

_IN_GROUP = ("calls=", "kind=")  # a diff lists the fused instructions under the fusion


def instructions(
    module: Module, full: bool = False, inputs: Sequence[Input] = ()
) -> Mapping[str, Line]:
    """Returns the line of every instruction, by id.

    Args:
        module: An HLO module.
        full: Whether to keep folded pieces.
        inputs: The inputs of its program.
    """
    if full:
        return hlo_lines.instructions(module, inputs)
    return LinesById(module, partial(_instruction, names=hlo_lines.names_of(module, inputs)))


def _instruction(node: Node, owner: str, names: Mapping[str, str]) -> Line:
    line = lean(hlo_lines.instruction(node, owner, names=names))
    pieces = (p for p in line.pieces if not p.text.lstrip(", ").startswith(_IN_GROUP))
    return Line(tuple(pieces), line.id, line.indent, line.line)


def listing(module: Module, limit: int, inputs: Sequence[Input] = ()) -> Listing:
    """Returns the listing of an HLO module, with at most `limit` lines before `more`."""
    plan = Plan(module, brief=True, inputs=inputs)
    option = f"%%hlo --stage {module.stage}" if module.stage in ("hlo", "optimized") else "--full"
    note = f"Metadata and layouts are left out: {option} has them."
    head = min(limit, plan.in_sight)
    return listed(module.stage, plan.total, head, lambda: map(lean, plan.lines()), note)
