"""The view of `%%jaxpr --tape`: the function's lines in the order in which JAX traced them."""

from jaxlens.ir.graph import Module
from jaxlens.ir.lazy import LazyDict
from jaxlens.lenses.tracing.line_trace import Tracing, findings, table
from jaxlens.render.document import Block, Findings, LineTracePlayer, Tab, Tabs
from jaxlens.views.listings import jaxpr as jaxpr_lines
from jaxlens.views.listings.equation import equation
from jaxlens.views.listings.panes import jaxpr_tab
from jaxlens.views.source_pane import extents


def blocks(found: Tracing, full: bool = False) -> list[Block]:
    """Returns findings, the lines step by step, and the jaxpr."""
    module = found.subject().jaxpr.module
    reel = LineTracePlayer(
        found.steps,
        found.notes,
        _texts(found),
        LazyDict(lambda: _equations(module, found)),  # not needed for text
        table(found),
    )
    lines = jaxpr_lines.equations(module)
    help = "Go through the lines as they ran while JAX traced: arrows, or the slider."
    tabs = (
        Tab("Tape", (reel,), True, help, "tape"),
        jaxpr_tab(found.subject(), module, lines, full),
    )
    return [Findings(tuple(findings(found))), Tabs(tabs)]


def _texts(found: Tracing) -> dict[str, tuple[tuple[int, str], ...]]:
    """Returns the numbered lines of the functions that ran, by file."""
    shown = {}
    for key, source in found.subject().sources.items():
        ran = sorted({step.line for step in found.steps if step.key == key})
        text = source.text.splitlines()
        if ran and text:
            numbers = [n for n in extents(source.text, ran, True) if 1 <= n <= len(text)]
            shown[source.file] = tuple((n, text[n - 1].rstrip()) for n in numbers)
    return shown


def _equations(module: Module, found: Tracing) -> dict[str, str]:
    """Returns each recorded equation in JAX's notation without folded pieces, by id."""
    wanted = {id for step in found.steps for id in step.made}
    return {
        node.id: "".join(p.text for p in equation(node).pieces if p.kind != "fold")
        for node in module.nodes()
        if node.id in wanted
    }
