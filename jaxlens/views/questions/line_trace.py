"""What `%%jaxpr --tape` shows: the function's lines as they ran while JAX traced them."""

from jaxlens.captures import Capture
from jaxlens.ir.graph import Module
from jaxlens.ir.lazy import LazyDict
from jaxlens.lenses.tracing.line_trace import Tracing, findings, replay, table
from jaxlens.options import JaxprOptions
from jaxlens.render.document import Document, Findings, Tab, Tabs, TapeReel
from jaxlens.views.header import taken
from jaxlens.views.links import weave
from jaxlens.views.listings import jaxpr as jaxpr_lines
from jaxlens.views.listings.equation import equation
from jaxlens.views.listings.panes import jaxpr_tab
from jaxlens.views.source_pane import extents


def document(capture: Capture, options: JaxprOptions | None = None) -> Document:
    """The tape of one capture, and the jaxpr beside it; traces, and does no more.

    Raises:
        UnavailableError: The capture holds no tape, and its call is gone.
    """
    found = replay(capture)
    module = capture.jaxpr.module
    reel = TapeReel(
        found.steps,
        found.notes,
        _texts(capture, found),
        LazyDict(lambda: _equations(module, found)),  # text has no use for them
        table(found, capture),
    )
    lines = jaxpr_lines.equations(module)
    help = "Go through the lines as they ran while JAX traced: arrows, or the slider."
    tabs = (
        Tab("Tape", (reel,), True, help, "tape"),
        jaxpr_tab(capture, module, lines, bool(options and options.full)),
    )
    told = Findings(tuple(findings(found)))
    return Document("tape", taken(capture.program), (told, Tabs(tabs)), weave(capture, ("jaxpr",)))


def _texts(capture: Capture, found: Tracing) -> dict[str, tuple[tuple[int, str], ...]]:
    """The functions that ran, line by line."""
    shown = {}
    for key, source in capture.sources.items():
        ran = sorted({step.line for step in found.steps if step.key == key})
        text = source.text.splitlines()
        if ran and text:
            numbers = [n for n in extents(source.text, ran, True) if 1 <= n <= len(text)]
            shown[source.file] = tuple((n, text[n - 1].rstrip()) for n in numbers)
    return shown


def _equations(module: Module, found: Tracing) -> dict[str, str]:
    """Each recorded equation in JAX's notation, what is folded left out."""
    wanted = {id for step in found.steps for id in step.made}
    return {
        node.id: "".join(p.text for p in equation(node).pieces if p.kind != "fold")
        for node in module.nodes()
        if node.id in wanted
    }
