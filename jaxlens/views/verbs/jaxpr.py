"""What `%%jaxpr` shows: the user's lines, the jaxpr beside them, and the graph."""

from jaxlens.captures import Capture
from jaxlens.ir.columns import counts
from jaxlens.ir.facts import Constant
from jaxlens.ir.gc_pause import paused
from jaxlens.ir.graph import Module
from jaxlens.ir.jaxpr.reader import occurrences
from jaxlens.ir.lazy import lazy
from jaxlens.lenses.compare import facts as compared
from jaxlens.lenses.constants.facts import captured as captured_report
from jaxlens.options import JaxprOptions
from jaxlens.render.document import Block, Document, Findings, GraphPane, Tab, TableBlock, Tabs
from jaxlens.render.graph.figure import Figure
from jaxlens.report import Finding, amount, count
from jaxlens.views import source_pane
from jaxlens.views.header import taken
from jaxlens.views.links import weave
from jaxlens.views.listings import jaxpr as jaxpr_lines
from jaxlens.views.listings.lines_by_id import LinesById
from jaxlens.views.listings.panes import jaxpr_tab
from jaxlens.views.questions import compare as comparison

_LARGE = 1_000_000  # bytes of constants from which advice is given
_KINDS = 4  # primitives named in the summary


def document(capture: Capture, options: JaxprOptions | None = None) -> Document:
    """The output for one capture; traces it and does no more.

    Args:
        capture: What to look at.
        options: What to show.
    """
    module = capture.jaxpr.module
    asked = options or JaxprOptions()
    if asked.against is not None:
        found = compared.of(asked.against, capture, compiled=False)
        changed = comparison.blocks(asked.against, capture, found=found, full=asked.full)
        return Document("jaxpr", taken(capture.program), tuple(changed))
    if asked.captured:
        report = captured_report(capture, compiled=False)
        tables = [TableBlock(table) for table in report.tables]
        return Document("jaxpr", taken(capture.program), (Findings(report.findings), *tables))
    with paused():
        return _document(capture, module, asked)


def _document(capture: Capture, module: Module, options: JaxprOptions) -> Document:
    tabs: list[Tab] = []
    alone = options.text != options.graph
    lines = jaxpr_lines.equations(module)
    if not alone:
        source = source_tab(capture, module, lines)
        tabs += [source] if source.blocks else []
    if options.text or not alone:
        tabs.append(jaxpr_tab(capture, module, lines, options.full))
    if options.graph or not alone:
        tabs.append(graph_tab(capture, module, options))
    summary = Findings(findings(capture, module))
    body: tuple[Block, ...] = tabs[0].blocks if len(tabs) == 1 else (Tabs(tuple(tabs)),)
    return Document("jaxpr", taken(capture.program), (summary, *body), weave(capture, ("jaxpr",)))


def findings(capture: Capture, module: Module) -> tuple[Finding, ...]:
    """The program in a few sentences: equations, bodies, captured constants."""
    nodes = counts(module)
    total = sum(nodes.values())
    most = ", ".join(f"{n:,} {k}" if n > 1 else k for k, n in nodes.most_common(_KINDS))
    rest = ", ..." if len(nodes) > _KINDS else ""
    sentence = count(total, "equation")
    if total:
        sentence += f" ({most}{rest})"
    inner = len(module.regions) - 1
    if inner:
        sentence += f" in {count(inner, 'nested body', 'nested bodies')} and the main one"
    found = [Finding(f"{sentence}.")]
    times = occurrences(module)
    unrolled = sum(times[r.name] * len(r.nodes) for r in module.regions.values())
    if unrolled != total:
        found.append(
            Finding(
                f"Bodies are shared: written out at every call it would be "
                f"{count(unrolled, 'equation')} (loops counted once)."
            )
        )
    constants = capture.constants
    if constants:
        found.append(Finding(_constants(constants)))
    return tuple(found)


def _constants(constants: tuple[Constant, ...]) -> str:
    """Captured arrays are part of the program: each compile holds them, each change retraces."""
    total = sum(c.bytes for c in constants)
    largest = sorted(constants, key=lambda c: -c.bytes)[:3]
    names = ", ".join(f"{c.name} {c.type}" if c.name else str(c.type) for c in largest)
    more = f" and {len(constants) - 3:,} more" if len(constants) > 3 else ""
    words = "a constant" if len(constants) == 1 else "constants"
    arrays = count(len(constants), "array")
    sentence = f"{arrays} captured as {words}, {amount(total)}: {names}{more}."
    advice = " Passed as arguments they would not be compiled into the program."
    return sentence + (advice if total >= _LARGE else "")


def source_tab(capture: Capture, module: Module, lines: LinesById) -> Tab:
    """The user's lines over the equations that each became."""
    panes = source_pane.blocks(module, capture.sources, lines)
    return Tab(
        "Your code", panes, help="Your lines, tinted by the equations each became.", key="source"
    )


def graph_tab(capture: Capture, module: Module, options: JaxprOptions) -> Tab:
    """The jaxpr as a drawing, made when it is looked at: text does without."""

    def draw(_: GraphPane) -> Figure:
        from jaxlens.views.figures.jaxpr import figure

        return figure(
            module,
            depth=options.depth,
            inputs=[leaf.name for leaf in capture.program.inputs],
            outputs=[leaf.name for leaf in capture.outputs],
        )

    def describe(pane: GraphPane) -> str:
        boxes = count(len(pane.figure.panels[0].boxes), "box", "boxes")
        return f"Graph of {capture.program.name}: {boxes} at the top level."

    pane = lazy(GraphPane, {"figure": draw, "alt": describe})
    help = "Equations as boxes, values as arrows; a box with a nested jaxpr opens in place."
    return Tab("Graph", (pane,), help=help, key="graph")
