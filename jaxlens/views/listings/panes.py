"""The panes of a viewer, each under the key by which it is remembered.

Where a backend does not give what a pane would show, the reason stands in its place.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from jaxlens.errors import LensError, UnavailableError
from jaxlens.ir.graph import Module
from jaxlens.ir.stage import BY_NAME
from jaxlens.lenses.program.kernels import Work
from jaxlens.lenses.subject import Subject
from jaxlens.render.document import Block, Findings, Listing, Tab
from jaxlens.render.html.lazy_lines import LazyLines
from jaxlens.report import Finding
from jaxlens.views.listings import jaxpr as jaxpr_lines
from jaxlens.views.listings import machine as machine_lines
from jaxlens.views.listings import stage_blocks
from jaxlens.views.listings.lines_by_id import LinesById

_EVERYTHING = 1 << 30
HEAD = 18  # lines of a program that stand in the page where many do; the rest is deflated


def pane(
    key: str,
    blocks: Callable[[], Sequence[Block]],
    *,
    title: str = "",
    in_text: bool = False,
    help: str = "",
) -> Tab:
    """A pane; what it shows is asked for here, and an error of ours becomes a sentence.

    Args:
        key: A stage's name, or a name of the pane's own, which then needs `title` and `help`.
        blocks: Makes what it shows.
        title: What stands on it; by default the stage's title.
        in_text: Whether the text form shows it.
        help: What it shows, in a sentence; by default what the stage is.
    """
    stage = BY_NAME.get(key)
    name = title or (stage.title if stage else key)
    try:
        shown = tuple(blocks())
    except LensError as why:
        shown = (Findings((Finding(f"{name}: {why}.", "unknown"),)),)
    return Tab(name, shown, in_text, help or (stage.meaning if stage else ""), key)


def stage_pane(
    subject: Subject, name: str, full: bool = False, title: str = "", head: int = HEAD
) -> Tab:
    """A stage's program, line by line."""
    return pane(
        name,
        lambda: [stage_blocks.listing(subject.stage(name), full, alone=False, head=head)],
        title=title,
    )


def jaxpr_tab(subject: Subject, module: Module, lines: LinesById, full: bool) -> Tab:
    """The jaxpr, line by line, with the names of its inputs and captured arrays.

    Args:
        subject: The program.
        module: Its jaxpr.
        lines: The equations as lines, those made before.
        full: Leave nothing out.
    """
    listing = jaxpr_lines.listing(
        module,
        inputs=[leaf.name for leaf in subject.program.inputs],
        captured=[constant.name for constant in subject.constants],
        limit=_EVERYTHING if full else jaxpr_lines.LIMIT,
        known=lines,
    )
    return Tab("jaxpr", (listing,), in_text=True, help=subject.jaxpr.info.meaning, key="jaxpr")


def shortened(tab: Tab, head: int) -> Tab:
    """A pane whose listings have no more lines in the page than this."""
    blocks = tuple(_short(b, head) if isinstance(b, Listing) else b for b in tab.blocks)
    return replace(tab, blocks=blocks)


def _short(listing: Listing, head: int) -> Listing:
    beyond = len(listing.lines) - head
    if beyond <= 0:
        return listing
    more = LazyLines(beyond + len(listing.more), lambda: (*listing.lines[head:], *listing.more))
    return replace(listing, lines=listing.lines[:head], more=more)


def machine_pane(
    subject: Subject,
    works: Sequence[Work],
    stage: machine_lines.Machine,
    most: int = machine_lines.MOST,
    head: int = machine_lines.HEAD,
) -> Tab:
    """The LLVM IR or machine code of every kernel.

    Args:
        subject: The program.
        works: Its kernels; none where it is not known which there are.
        stage: Which of the two.
        most: Lines in all.
        head: Lines that stand in the page.
    """
    ptx = subject.program.target.platform in ("gpu", "cuda", "rocm") and stage == "asm"
    return pane(
        stage, lambda: _machine(subject, works, stage, most, head), title="PTX" if ptx else ""
    )


def _machine(
    subject: Subject, works: Sequence[Work], stage: machine_lines.Machine, most: int, head: int
) -> list[Block]:
    found = machine_lines.listing(works, stage, most=most, head=head)
    if not found.lines:
        subject.stage(stage)  # says why, where the backend knows
        raise UnavailableError("no kernel of this program has any")
    return [found]
