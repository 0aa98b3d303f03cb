"""Builds the panes of a viewer, each with a stable key.

If a backend does not give the content of a pane, the pane shows the reason.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from jaxlens.captures import Capture
from jaxlens.errors import LensError, UnavailableError
from jaxlens.ir.columns import counts
from jaxlens.ir.jaxpr.user_names import UserNames
from jaxlens.ir.stage import BY_NAME, STAGES
from jaxlens.program.fusion_change import operations
from jaxlens.program.kernels import Work
from jaxlens.render.document import Block, Findings, Tab, Tabs
from jaxlens.report import Finding, count
from jaxlens.views.listings import jaxpr as jaxpr_lines
from jaxlens.views.listings import machine as machine_lines
from jaxlens.views.listings import stage_blocks
from jaxlens.views.listings.lines_by_id import LinesById

_EVERYTHING = 1 << 30
_SHORT = {stage.name: stage.short for stage in STAGES}
CHAIN: tuple[Mapping[str, str], ...] = (
    {name: _SHORT[name] for name in ("source", "jaxpr", "stablehlo", "hlo")}
    | {"change": "fusion", "optimized": _SHORT["optimized"], "kernels": "kernels"}
    | {name: _SHORT[name] for name in ("llvm", "asm")},
    {"graph": "graph", "hlo-graph": "HLO graph", "passes": _SHORT["passes"]}
    | {"cost": "cost", "memory": "memory", "time": "times"},
)
"""Names of the panes of every look, by key: the stages in order, then what stands beside them."""
HEAD = 6  # lines of each program in a page with several as markup; the rest is deflated


def pane(
    key: str,
    blocks: Callable[[], Sequence[Block]],
    *,
    title: str = "",
    in_text: bool = False,
    help: str = "",
    count: str = "",
) -> Tab:
    """Returns a pane; a `LensError` of `blocks` becomes its only finding.

    Args:
        key: A stage's name, or another name, which then needs `title` and `help`.
        blocks: Makes its content; called here.
        title: Its label; by default the stage's title.
        in_text: Whether the text form shows it.
        help: What it shows, in a sentence; by default the stage's meaning.
        count: How much it has.
    """
    stage = BY_NAME.get(key)
    name = title or (stage.title if stage else key)
    try:
        shown = tuple(blocks())
    except LensError as why:
        shown = (Findings((Finding(f"{name}: {why}.", "unknown"),)),)
    return Tab(name, shown, in_text, help or (stage.meaning if stage else ""), key, count)


def chained(tabs: Sequence[Tab], open: tuple[str, ...], elsewhere: str = "") -> Tabs:
    """Returns the panes of a look in the order of the chain, which names those it lacks too.

    Args:
        tabs: The panes; those without blocks are left out.
        open: Keys of those that are open at first.
        elsewhere: Key of one that the output shows in another place; "" for none.
    """
    order = [key for part in CHAIN for key in part]
    shown = sorted((tab for tab in tabs if tab.blocks), key=lambda tab: order.index(tab.key))
    named = ({key: name for key, name in part.items() if key != elsewhere} for part in CHAIN)
    return Tabs(tuple(shown), open=open, chain=tuple(named))


def stage_pane(
    subject: Capture, name: str, full: bool = False, title: str = "", head: int = HEAD
) -> Tab:
    """Returns the pane of a stage's program, line by line."""

    def listing() -> list[Block]:
        inputs, stage = subject.program.inputs, subject.stage(name)
        return [stage_blocks.listing(stage, full, alone=False, head=head, inputs=inputs)]

    shown = pane(name, listing, title=title)
    return replace(shown, count=_operations(subject, name))


def _operations(subject: Capture, name: str) -> str:
    """Returns how many operations a stage has; "" for a stage that the backend does not give."""
    try:
        module = subject.stage(name).module
    except LensError:
        return ""
    if name == "stablehlo":
        ops = counts(module)
        return count(ops.total() - ops["stablehlo.constant"], "operation")
    return count(len(operations(module)), "operation")


def user_names(subject: Capture) -> UserNames:
    """Returns what the user's code calls the values of a program's jaxpr."""
    return UserNames(
        subject.jaxpr.module,
        [leaf.name for leaf in subject.program.inputs],
        [constant.name for constant in subject.constants],
        subject.sources,
    )


def equation_lines(subject: Capture) -> LinesById:
    """Returns the equations of a program's jaxpr as lines, by id."""
    return jaxpr_lines.equations(subject.jaxpr.module, user_names(subject))


def jaxpr_tab(
    subject: Capture,
    full: bool,
    lines: LinesById | None = None,
    in_text: bool = True,
    head: int | None = None,
) -> Tab:
    """Returns the pane of the jaxpr, with the names of its inputs and captured arrays.

    Args:
        subject: The program.
        full: Whether to leave nothing out.
        lines: Its equations as lines, to reuse.
        in_text: Whether the text form shows it.
        head: Lines in the page, where they are fewer than usual.
    """
    listing = jaxpr_lines.listing(
        subject.jaxpr.module,
        inputs=[leaf.name for leaf in subject.program.inputs],
        captured=[constant.name for constant in subject.constants],
        limit=_EVERYTHING if full else jaxpr_lines.LIMIT,
        lines=equation_lines(subject) if lines is None else lines,
        head=head,
    )
    info, total = subject.jaxpr.info, counts(subject.jaxpr.module).total()
    return Tab("jaxpr", (listing,), in_text, info.meaning, "jaxpr", count(total, "equation"))


def machine_pane(
    subject: Capture,
    works: Sequence[Work],
    stage: machine_lines.Machine,
    most: int = machine_lines.MOST,
    head: int = HEAD,
    first: Sequence[Work] = (),
) -> Tab:
    """Returns the pane of the LLVM IR or machine code of the kernels.

    Args:
        subject: The program.
        works: Its kernels; none where they are unknown.
        stage: "llvm" or "asm".
        most: Maximum number of lines.
        head: Lines in the page.
        first: The kernels in the order in which they get these lines.
    """

    def code() -> list[Block]:
        listing = machine_lines.listing(works, stage, most=most, head=head, first=first)
        if not listing.lines:
            subject.stage(stage)  # raises with the reason, if the backend gives one
            raise UnavailableError("no kernel of this program has any")
        return [listing]

    ptx = subject.program.target.platform in ("gpu", "cuda", "rocm") and stage == "asm"
    return pane(stage, code, title="PTX" if ptx else "")
