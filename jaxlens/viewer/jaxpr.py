"""The view of `%%jaxpr`: the user's lines, the jaxpr, and its graph."""

from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.ir.columns import counts
from jaxlens.ir.facts import Constant
from jaxlens.ir.graph import Module, paused
from jaxlens.options import JaxprPanes
from jaxlens.program.counted import EquationSums
from jaxlens.render.document import Block, Findings, Tab
from jaxlens.render.graph.figure import Figure
from jaxlens.report import Finding, amount, count, explains, saves
from jaxlens.views import source_pane
from jaxlens.views.figures import jaxpr as jaxpr_figure
from jaxlens.views.listings.panes import chained, equation_lines, jaxpr_tab, user_names

_LARGE = 1_000_000  # bytes of constants from which the finding has advice
_KINDS = 4  # primitives named in the summary
_DRAWN = 40  # boxes up to which the graph is open at first


@dataclass(frozen=True, slots=True)
class JaxprFacts:
    """The facts that `%%jaxpr` shows: a program, and the requested panes."""

    subject: Capture
    panes: JaxprPanes


def blocks(facts: JaxprFacts, full: bool) -> list[Block]:
    """Returns the findings and the requested panes, untruncated if `full`."""
    subject, options = facts.subject, facts.panes
    module = subject.jaxpr.module
    with paused():
        tabs: list[Tab] = []
        alone = options.text != options.graph
        lines = equation_lines(subject)
        if not alone and (panes := source_pane.blocks(module, subject.sources, lines)):
            help = "Your lines, tinted by the equations each became."
            tabs.append(Tab("Your code", panes, help=help, key="source"))
        if options.text or not alone:
            tabs.append(jaxpr_tab(subject, full, lines))
        if options.graph or not alone:
            tabs.append(graph_tab(subject, module, options.depth))
        beside = ("jaxpr", "graph") if is_small(module) else ("jaxpr",)
        shown = chained(tabs, open=("source", *beside))
        body: tuple[Block, ...] = tabs[0].blocks if len(tabs) == 1 else (shown,)
        return [Findings(findings(subject, module)), *body]


def is_small(module: Module) -> bool:
    """Whether the graph is open at first: by its boxes, of equations, inputs and results."""
    main = module.body()
    return counts(module).total() + len(main.parameters) + len(main.results) <= _DRAWN


def findings(subject: Capture, module: Module) -> tuple[Finding, ...]:
    """Returns findings on the program: its equations, bodies and captured constants."""
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
    named = sum(n for _, n in nodes.most_common(_KINDS))
    shown = [Finding(f"{sentence}.", weight=explains(named, total))]
    if subject.constants:
        shown.append(_constants(subject.constants))
    return tuple(shown)


def _constants(constants: tuple[Constant, ...]) -> Finding:
    """Returns the finding on the captured arrays, which are compiled into the program."""
    total = sum(c.bytes for c in constants)
    largest = sorted(constants, key=lambda c: -c.bytes)[:3]
    names = ", ".join(f"{c.name} {c.type}" if c.name else str(c.type) for c in largest)
    more = f" and {len(constants) - 3:,} more" if len(constants) > 3 else ""
    role = "a constant" if len(constants) == 1 else "constants"
    arrays = count(len(constants), "array")
    sentence = f"{arrays} captured as {role}, {amount(total)}: {names}{more}."
    advice = " Passed as arguments they would not be compiled into the program."
    if total < _LARGE:
        return Finding(sentence)
    return Finding(sentence + advice, weight=saves(1, 1))


def graph_tab(subject: Capture, module: Module, depth: int = 1) -> Tab:
    """Returns the pane of the jaxpr's graph, made on first use: the text form has no graph."""

    def draw() -> Figure:
        return jaxpr_figure.figure(
            module,
            depth=depth,
            inputs=[leaf.name for leaf in subject.program.inputs],
            outputs=[leaf.name for leaf in subject.outputs],
            called=user_names(subject).of,
            costs=EquationSums(module, {}),
        )

    pane = jaxpr_figure.pane(subject.program.name, draw)
    help = "Equations as boxes, values as arrows; a box with a nested jaxpr opens in place."
    return Tab("Graph", (pane,), help=help, key="graph")
