"""The view of `%%jaxpr --ladder`: the jaxprs of a function and of each transform of it.

Each rung is a pane; pointing at an equation highlights the equations that it came from, or that
came from it, on every other rung. `fwd` and `bwd` before an equation are forward and backward pass.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from jaxlens.ir.graph import Node
from jaxlens.lenses.tracing.ladder import STAGE, Ladder, LadderProgram, report
from jaxlens.render.document import Block, Findings, Line, Listing, Piece, Tab, TableBlock, Tabs
from jaxlens.render.link_data import Web
from jaxlens.report import Table
from jaxlens.views import source_pane
from jaxlens.views.listings import jaxpr as jaxpr_lines
from jaxlens.views.listings.equation import equation
from jaxlens.views.listings.lines_by_id import LinesById

_FORWARD, _BACKWARD = Piece("fwd ", "attr"), Piece("bwd ", "warn")


def blocks(found: Ladder, full: bool = False) -> list[Block]:
    """Returns findings, tables and the rungs, the function itself first, untruncated if `full`."""
    told = report(found)
    rungs, *rules = told.tables
    panes = [_pane(n, rung, full) for n, rung in enumerate(found.rungs)]
    tabs = (_source(found.rungs[0]), *panes, _rules(rules))
    return [
        Findings(told.findings),
        TableBlock(rungs),
        Tabs(tuple(tab for tab in tabs if tab.blocks)),
    ]


def _source(rung: LadderProgram) -> Tab:
    """Returns the pane of the user's lines with the equations of the function itself."""
    lines = jaxpr_lines.equations(rung.module)
    blocks = source_pane.blocks(rung.module, rung.subject().sources, lines)
    return Tab("Your code", blocks, help="Your lines over the equations of each.", key="source")


def _pane(n: int, rung: LadderProgram, full: bool) -> Tab:
    help = f"The jaxpr of {rung.title}, forward and backward pass marked."
    told = rung.transform not in ("jit", "checkpoint")  # which only wrap the rung below
    return Tab(rung.title, (_listing(n, rung, full),), told, help, f"rung{n}")


def _listing(n: int, rung: LadderProgram, full: bool) -> Listing:
    """Returns a rung's jaxpr, with `fwd` and `bwd` marks if it has a backward pass."""

    def marked(node: Node, owner: str) -> Line:
        line = equation(node, owner)
        return replace(line, pieces=(mark(node.id), *line.pieces))

    def mark(id: str) -> Piece:
        return _BACKWARD if id in rung.backward else _FORWARD

    known = LinesById(rung.module, marked if rung.backward else equation)
    inputs = [leaf.name for leaf in rung.subject().program.inputs]
    captured = [constant.name for constant in rung.subject().constants]
    limit = (1 << 30) if full else jaxpr_lines.LIMIT
    found = jaxpr_lines.listing(
        rung.module, inputs=inputs, captured=captured, limit=limit, known=known
    )
    lines = tuple(_headed(found.lines, mark) if rung.backward else found.lines)
    note = f"{found.note.partition(':')[0]} in this pane's program" if found.note else ""
    return replace(found, stage=f"{STAGE}{n}", lines=lines, note=note, more=())


def _headed(lines: Sequence[Line], mark: Callable[[str], Piece]) -> Iterator[Line]:
    """Marks the first line of each equation with nested jaxprs too."""
    seen = {""}
    for line in lines:
        known, first = line.id in seen, line.pieces[:1]
        seen.add(line.id)
        new = not known and first not in ((_FORWARD,), (_BACKWARD,))
        yield replace(line, pieces=(mark(line.id), *line.pieces)) if new else line


def _rules(tables: Sequence[Table]) -> Tab:
    blocks = tuple(TableBlock(table) for table in tables)
    return Tab("Rules used", blocks, True, "What the rule of each primitive does.", "rules")


def web(found: Ladder) -> Web:
    """Returns links in which an equation's atoms are its origins in the function's jaxpr."""
    numbers = {node.id: n for n, node in enumerate(found.rungs[0].module.nodes())}
    atoms: dict[str, Mapping[str, tuple[int, ...]]] = {}
    for n in range(len(found.rungs)):
        ties = found.ties(n)
        atoms[f"{STAGE}{n}"] = {id: tuple(numbers[s] for s in ids) for id, ids in ties.items()}
    lines: defaultdict[str, list[int]] = defaultdict(list)
    for node in found.rungs[0].module.nodes():
        if node.owner:
            lines[str(node.owner)].append(numbers[node.id])
    return Web(atoms=atoms, lines={name: tuple(ids) for name, ids in lines.items()})
