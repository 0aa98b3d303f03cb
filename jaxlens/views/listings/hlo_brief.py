"""Instructions on one line for places where the eye compares: without what is folded elsewhere."""

from collections.abc import Mapping
from itertools import islice

from jaxlens.ir.graph import Module, Node
from jaxlens.render.document import Line, Listing
from jaxlens.render.html.lazy_lines import LateLines
from jaxlens.views.listings import hlo as hlo_lines
from jaxlens.views.listings.hlo import lean
from jaxlens.views.listings.hlo_rows import rows
from jaxlens.views.listings.lines_by_id import LinesById

_SAID_BY_PLACE = ("calls=", "kind=")  # what a fusion calls stands under it


def instructions(module: Module, full: bool = False) -> Mapping[str, Line]:
    """Every instruction, by id.

    Args:
        module: HLO.
        full: Keep folded pieces, which a reader can open.
    """
    return hlo_lines.instructions(module) if full else LinesById(module, _instruction)


def _instruction(node: Node, owner: str) -> Line:
    return _without_calls(lean(hlo_lines.instruction(node, owner)))


def _without_calls(line: Line) -> Line:
    kept = (p for p in line.pieces if not p.text.lstrip(", ").startswith(_SAID_BY_PLACE))
    return Line(tuple(kept), line.id, line.indent, line.line)


def listing(module: Module, limit: int) -> Listing:
    """A whole HLO module; `limit` is the most lines."""
    plan = hlo_lines.Plan(module, brief=True)
    lines = tuple(map(lean, islice(plan.lines(), limit)))
    option = f"%%hlo --stage {module.stage}" if module.stage in ("hlo", "optimized") else "--full"
    note = f"Metadata and layouts are left out: {option} has them."
    more = LateLines(
        plan.total - len(lines),
        lambda: map(lean, islice(plan.lines(), limit, None)),
        lambda: islice(rows(plan), limit, None),
    )
    return Listing(module.stage, lines, note, more or ())
