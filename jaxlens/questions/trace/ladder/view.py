"""The view of `%%jaxpr --ladder`: the jaxprs of a function and of each transform of it.

Each rung is a pane; pointing at an equation highlights the equations that it came from, or that
came from it, on every other rung. `fwd` and `bwd` before an equation are forward and backward pass.
"""

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace

from jaxlens.questions.trace.ladder.facts import STAGE, Ladder, LadderProgram
from jaxlens.questions.trace.ladder.report import report
from jaxlens.render.document import Block, Findings, Line, Piece, Tab, TableBlock, Tabs
from jaxlens.render.link_data import Web
from jaxlens.views import source_pane
from jaxlens.views.listings import jaxpr as jaxpr_lines
from jaxlens.views.listings.equation import equation
from jaxlens.views.listings.lines_by_id import LinesById

_FORWARD, _BACKWARD = Piece("fwd ", "attr"), Piece("bwd ", "warn")


def blocks(ladder: Ladder, full: bool = False) -> list[Block]:
    """Returns findings, tables and the rungs, the function itself first, untruncated if `full`.

    The first two rungs open side by side; the user's lines are a tab behind them.
    """
    answer = report(ladder)
    rungs, *rules = map(TableBlock, answer.tables)
    plain = ladder.rungs[0]
    lines = jaxpr_lines.equations(plain.module)
    source = source_pane.blocks(plain.module, plain.subject().sources, lines)
    tabs = (
        *(_pane(n, rung, full) for n, rung in enumerate(ladder.rungs)),
        Tab("Your code", source, help="Your lines over the equations of each.", key="source"),
        Tab("Rules used", tuple(rules), True, "What the rule of each primitive does.", "rules"),
    )
    shown = tuple(tab for tab in tabs if tab.blocks)
    return [Findings(answer.findings), rungs, Tabs(shown, open=("rung0", "rung1", "rung2"))]


def _pane(n: int, rung: LadderProgram, full: bool) -> Tab:
    """Returns a rung's jaxpr, with `fwd` and `bwd` marks if it has a backward pass."""

    lines = LinesById(rung.module, equation)
    inputs = [leaf.name for leaf in rung.subject().program.inputs]
    captured = [constant.name for constant in rung.subject().constants]
    limit = (1 << 30) if full else jaxpr_lines.LIMIT
    listing = jaxpr_lines.listing(
        rung.module, inputs=inputs, captured=captured, limit=limit, lines=lines
    )
    rows = tuple(_marked(listing.lines, rung.backward) if rung.backward else listing.lines)
    note = f"{listing.note.partition(':')[0]} in this pane's program" if listing.note else ""
    shown = replace(listing, stage=f"{STAGE}{n}", lines=rows, note=note, more=())
    help = f"The jaxpr of {rung.title}, forward and backward pass marked."
    in_text = rung.transform not in ("jit", "checkpoint")  # which only wrap the rung below
    return Tab(rung.title, (shown,), in_text, help, f"rung{n}")


def _marked(lines: Sequence[Line], backward: Container[str]) -> Iterator[Line]:
    """Yields lines with the pass of each equation before its first."""
    ids = {""}
    for line in lines:
        mark = _BACKWARD if line.id in backward else _FORWARD
        yield line if line.id in ids else replace(line, pieces=(mark, *line.pieces))
        ids.add(line.id)


def web(ladder: Ladder) -> Web:
    """Returns links in which an equation's atoms are its origins in the function's jaxpr."""
    nodes = list(ladder.rungs[0].module.nodes())
    numbers = {node.id: n for n, node in enumerate(nodes)}
    atoms: dict[str, Mapping[str, tuple[int, ...]]] = {}
    for n in range(len(ladder.rungs)):
        ties = ladder.ties(n)
        atoms[f"{STAGE}{n}"] = {id: tuple(numbers[s] for s in ids) for id, ids in ties.items()}
    lines: defaultdict[str, list[int]] = defaultdict(list)
    for node in nodes:
        if node.owner:
            lines[str(node.owner)].append(numbers[node.id])
    return Web(atoms=atoms, lines={name: tuple(ids) for name, ids in lines.items()})
