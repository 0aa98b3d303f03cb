"""The view of `%%hlo`: the program before and after fusion, the user's lines, each stage, passes.

The pane of a stage that this backend does not give shows the reason.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from jaxlens.captures import Capture
from jaxlens.errors import LensError, OptionError, UnavailableError, nearest, why_unavailable
from jaxlens.ir.facts import Kernel
from jaxlens.ir.stage import BY_NAME
from jaxlens.links.match.instruction_fates import ProgramChange, between
from jaxlens.options import HloPanes
from jaxlens.program.fusion_change import TRACE_LIMIT, fusion_sizes, length
from jaxlens.program.fusion_change import findings as fusion_findings
from jaxlens.program.kernels import tally
from jaxlens.program.passes import meaning, what
from jaxlens.program.sentences import quoter
from jaxlens.program.subject import Given
from jaxlens.render.document import Block, Findings, Fold, Tab, Tabs
from jaxlens.render.link_data import Web
from jaxlens.report import Finding, count
from jaxlens.views.figures import hlo as hlo_figure
from jaxlens.views.listings import stage_blocks
from jaxlens.views.listings.panes import chained, pane, stage_pane
from jaxlens.views.passes.hlo_diff import diff as change_diff
from jaxlens.views.passes.hlo_programs import Named, dumps, find, title_of
from jaxlens.views.passes.pane import Atoms, passes_blocks

BEFORE = "before"  # stage of the program just before fusion, which is none of `ir/stage.py`
Change = Given[tuple[ProgramChange, str]]
_SHOWN = ("stablehlo", "hlo", "optimized")


@dataclass(frozen=True, slots=True)
class HloFacts:
    """The facts that `%%hlo` shows.

    Attributes:
        subject: The program.
        panes: The requested panes; by default all.
        change: Change from just before fusion to the optimised program, and a note on both.
        kernels: The kernels.
        web: Links between all panes.
        atoms: Atoms of the instructions in pass dumps.
        programs: Value numbering of each program, kept for all comparisons.
    """

    subject: Capture
    panes: HloPanes
    change: Change
    kernels: Given[tuple[Kernel, ...]]
    web: Web | None
    atoms: Atoms | None
    programs: object


def blocks(facts: HloFacts, full: bool) -> list[Block]:
    """Returns the requested panes, or else all tabs with the findings above them.

    Raises:
        OptionError: There is no stage or pass of that name.
        UnavailableError: This backend does not give a requested stage.
    """
    subject, panes = facts.subject, facts.panes
    shown: list[Block] = []
    if panes.stage:
        shown += _stage(subject, panes.stage, full)
    if panes.diff:
        shown += _compared(subject, *panes.diff, full)
    if panes.passes:
        shown += passes_blocks(subject, limit=None, everything=full)
    if panes.pass_name:
        shown += _pass(subject, panes.pass_name, full)
    return shown or _all(facts, full)


def _all(facts: HloFacts, full: bool) -> list[Block]:
    """Returns all tabs, with the findings above them.

    The text form shows a stage only if no other is available.
    """
    subject = facts.subject
    available = [name for name in _SHOWN if not why_unavailable(partial(subject.stage, name))]
    tabs = (
        pane("source", lambda: stage_blocks.became(subject), title="Your code"),
        replace(change_pane(subject, facts.change, full), in_text=True),
        *(replace(stage_pane(subject, name, full), in_text=available == [name]) for name in _SHOWN),
        pane("passes", lambda: passes_blocks(subject, atoms=facts.atoms), title="Passes"),
    )
    shown = chained(tabs, open=("change", "source", "optimized"))
    return [Findings(tuple(_sentences(facts))), shown]


def change_pane(subject: Capture, change: Change, full: bool) -> Tab:
    """Returns the pane of the program before and after fusion."""

    def changed() -> list[Block]:
        found, note = change.get()
        shown = change_diff(found, "Before fusion", "After", note, full, subject.program.inputs)
        return [replace(shown, stages=(BEFORE, "optimized"))]

    shown = pane(
        "change",
        changed,
        title="Before and after fusion",
        help="Each fusion with the instructions it swallowed, most bytes first; "
        "then all else that changed.",
    )
    try:
        before, after = fusion_sizes(change.get()[0])
    except LensError:
        return shown
    return replace(shown, count=f"{before:,} to {count(after, 'operation')}")


def linked(web: Web | None, atoms: Atoms | None, change: Change) -> Web | None:
    """Returns the links of all panes, with those of the program just before fusion."""
    if web is None or atoms is None:
        return web
    try:
        before = change.get()[0].before
    except LensError:
        return web
    return replace(web, atoms={**web.atoms, BEFORE: atoms(before)})


def _sentences(facts: HloFacts) -> Iterator[Finding]:
    try:
        yield from fusion_findings(facts.change.get()[0], quoter(facts.subject))
        yield Finding(tally(kernel.kind for kernel in facts.kernels.get()))
    except UnavailableError as why:
        yield Finding(f"{why}.", "unknown")


def _stage(subject: Capture, name: str, full: bool) -> list[Block]:
    """Returns one stage; LLVM IR and machine code kernel by kernel."""
    names = [stage for stage in BY_NAME if stage not in ("source", "passes")]
    if name not in names:
        raise OptionError(f"no stage {name!r}; {nearest(name, names)}")
    if name in ("llvm", "asm"):
        return stage_blocks.native(subject, name)
    listing = stage_blocks.listing(subject.stage(name), full, inputs=subject.program.inputs)
    if name in ("jaxpr", "stablehlo"):  # `%%jaxpr` draws them
        return [listing]
    help = "Operations as boxes, values as arrows; calls, loops and fusions open in place."
    graph = Tab("Graph", (hlo_figure.pane(subject, name),), help=help, key="graph")
    return [Tabs((Tab(BY_NAME[name].title, (listing,), True, key=name), graph))]


def _compared(subject: Capture, left: str, right: str, full: bool) -> list[Block]:
    """Returns the diff of any two HLO programs of the compile."""
    a, b = find(subject, left), find(subject, right)
    if b.index < a.index:
        a, b = b, a
    rest = dumps(subject)[a.index + 1 : b.index + 1]
    change = between(a.stage.module, b.stage.module, () if length(rest) > TRACE_LIMIT else rest)
    sizes = f"{change.before.size:,} instructions before, {change.after.size:,} after"
    summary = Finding(f"{sizes}: {what(change)}.")
    note = " ".join(filter(None, map(_namesakes, (a, b))))
    return [
        Findings((summary,)),
        change_diff(change, a.title, b.title, note, full, subject.program.inputs),
    ]


def _namesakes(program: Named) -> str:
    """Returns a note on the other dumps of the same pass; "" for none."""
    if not program.others or program.dump is None:
        return ""
    return (
        f"{count(program.others, 'other dump')} of {program.dump.name} changed the program too: "
        "name those by their number."
    )


def _pass(subject: Capture, name: str, full: bool) -> list[Block]:
    """Returns the diff of a pass, and the program after it."""
    program = find(subject, name)
    if program.dump is None or program.index == 0:
        raise OptionError(f"{name!r} is a stage; expected the name or number of a pass")
    earlier = dumps(subject)[program.index - 1]
    change = between(earlier.stage.module, program.stage.module)
    sentences = [
        f"{title_of(program.dump)}: {what(change)}; {change.before.size:,} instructions before, "
        f"{change.after.size:,} after.",
        meaning(program.dump),
        _namesakes(program),
    ]
    return [
        Findings(tuple(Finding(text) for text in sentences if text)),
        change_diff(change, title_of(earlier), program.title, "", full),
        Fold("The program after it", (stage_blocks.listing(program.stage, full),)),
    ]
