"""The view of `%%jaxpr --tape`: the function's lines in the order in which JAX traced them."""

from jaxlens.ir.lazy import LazyDict
from jaxlens.questions.trace.tape.facts import Tracing
from jaxlens.questions.trace.tape.report import findings, steps_table
from jaxlens.render.document import Block, Findings, Tab, Tabs, TapeReel
from jaxlens.views.listings.equation import equation
from jaxlens.views.listings.panes import jaxpr_tab
from jaxlens.views.source_pane import extents


def blocks(tracing: Tracing, full: bool = False) -> list[Block]:
    """Returns findings, the lines in the order in which JAX traced them, and the jaxpr."""
    module = tracing.subject().jaxpr.module

    def equations() -> dict[str, str]:
        """Returns each recorded equation in JAX's notation without folded pieces, by id."""
        ids = {id for step in tracing.steps for id in step.made}
        return {
            node.id: "".join(p.text for p in equation(node).pieces if p.kind != "fold")
            for node in module.nodes()
            if node.id in ids
        }

    reel = TapeReel(
        tracing.steps,
        tracing.notes,
        _texts(tracing),
        LazyDict(equations),  # not needed for text
        steps_table(tracing),
    )
    help = "Go through the lines as they ran while JAX traced: arrows, or the slider."
    tabs = (
        Tab("Tape", (reel,), True, help, "tape"),
        jaxpr_tab(tracing.subject(), full),
    )
    return [Findings(tuple(findings(tracing))), Tabs(tabs, open=("tape", "jaxpr"))]


def _texts(tracing: Tracing) -> dict[str, tuple[tuple[int, str], ...]]:
    """Returns the numbered lines of the functions that ran, by file."""
    shown = {}
    for key, source in tracing.subject().sources.items():
        ran = sorted({step.line for step in tracing.steps if step.key == key})
        text = source.text.splitlines()
        if ran and text:
            numbers = [n for n in extents(source.text, ran, True) if 1 <= n <= len(text)]
            shown[source.file] = tuple((n, text[n - 1].rstrip()) for n in numbers)
    return shown
