"""Instructions on one line for places where the eye compares: without what is folded elsewhere."""

from collections.abc import Mapping

from jaxlens.ir.graph import Module, Node
from jaxlens.render import hlo_lines
from jaxlens.render.document import Line, Listing
from jaxlens.render.late_lines import LateLines
from jaxlens.render.lines_by_id import LinesById

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
    found = hlo_lines.listing(module, limit=limit, brief=True)
    option = f"%%hlo --stage {module.stage}" if module.stage in ("hlo", "optimized") else "--full"
    note = f"Metadata and layouts are left out: {option} has them."
    more = LateLines(len(found.more), lambda: map(lean, found.more)) if found.more else ()
    said = " ".join(filter(None, (found.note, note)))
    return Listing(found.stage, tuple(map(lean, found.lines)), said, more)


def lean(line: Line) -> Line:
    """A line without its folded pieces."""
    kept = tuple(piece for piece in line.pieces if piece.kind != "fold")
    return Line(kept, line.id, line.indent, line.line)
