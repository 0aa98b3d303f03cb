"""What `%%hlo` shows: your lines, the program before and after fusion, and every stage between.

A stage that this backend does not give is a sentence in its place.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

from jaxlens.captures import Capture
from jaxlens.errors import OptionError, UnavailableError, nearest
from jaxlens.ir.driver import Needs
from jaxlens.ir.stage import BY_NAME
from jaxlens.lenses.fusion import facts as fused
from jaxlens.lenses.program.fusion_change import GLANCE_LIMIT, TRACE_LIMIT, across_fusion, length
from jaxlens.lenses.program.fusion_change import findings as fusion_findings
from jaxlens.lenses.program.kernels import tally, works
from jaxlens.lenses.program.passes import meaning, size, what
from jaxlens.links.match.instruction_fates import Change, between
from jaxlens.render.document import Block, Document, Findings, Fold, Tab, Tabs
from jaxlens.report import Finding, count
from jaxlens.views.header import taken
from jaxlens.views.links import weave
from jaxlens.views.listings import stage_blocks
from jaxlens.views.listings.panes import pane, stage_pane
from jaxlens.views.passes.change_diff import diff as change_diff
from jaxlens.views.passes.hlo_programs import Named, dumps, find, fusing, last_changed, title_of
from jaxlens.views.passes.pane import Atoms, beside, passes_blocks
from jaxlens.views.questions import fusion as fusion_view

_SHOWN = ("stablehlo", "hlo", "optimized")
_LINKED = ("jaxpr", *_SHOWN)


def document(
    capture: Capture,
    *,
    stage: str | None = None,
    diff: tuple[str, str] | None = None,
    passes: bool = False,
    pass_name: str | None = None,
    fusion: bool = False,
    full: bool = False,
) -> Document:
    """Builds the output of `%%hlo`.

    Args:
        capture: The program.
        stage: Show this stage alone.
        diff: Compare these two HLO stages or passes.
        passes: List the passes that changed the program.
        pass_name: Show what this pass changed.
        fusion: Show the program before and after fusion alone.
        full: Leave nothing out.

    Raises:
        OptionError: There is no stage or pass of that name.
        UnavailableError: What was asked for alone is not given by this backend.
    """
    if passes or diff or pass_name:
        capture.gather(Needs(passes="all"))
    elif not stage:
        capture.gather(Needs(passes="fusing"))
    programs = capture.links.programs()  # held: fates and comparisons number each program once
    blocks: list[Block] = []
    if stage:
        blocks += _stage(capture, stage, full)
    if diff:
        blocks += _compared(capture, *diff, full)
    if passes:
        blocks += passes_blocks(capture, limit=None, everything=full)
    if pass_name:
        blocks += _pass(capture, pass_name, full)
    web = None
    if fusion:
        found = fused.of(capture, TRACE_LIMIT if full else GLANCE_LIMIT)
        blocks += fusion_view.blocks(capture, found, full)
        web = fusion_view.web(capture, found)
    if not blocks:
        web = weave(capture, _LINKED, fates=capture.has_all_passes)  # without, few could be told
        blocks = _default(capture, full, beside(capture, web) if web else None)
    del programs
    return Document("hlo", taken(capture.program), tuple(blocks), web)


def _default(capture: Capture, full: bool, atoms: Atoms | None) -> list[Block]:
    """All tabs, with the sentences above them."""
    change = cache(lambda: across_fusion(capture, GLANCE_LIMIT, fusing(capture)))
    sentences = tuple(_sentences(capture, change))
    tabs = (
        pane("source", lambda: stage_blocks.became(capture), title="Your code"),
        pane(
            "change",
            lambda: [change_diff(change()[0], "Before fusion", "After", change()[1], full)],
            title="Before and after fusion",
            in_text=True,
            help="Each fusion with the instructions it swallowed, then all else that changed.",
        ),
        *_stages(capture, full),
        pane("passes", lambda: passes_blocks(capture, atoms=atoms), title="Passes"),
    )
    return [Findings(sentences), Tabs(tabs)]


def _stages(capture: Capture, full: bool) -> Iterator[Tab]:
    """Each stage; one that is all there is, as of optimised HLO's text, stands in the text too."""
    given = [name for name in _SHOWN if _is_given(capture, name)]
    for name in _SHOWN:
        yield replace(stage_pane(capture, name, full), in_text=given == [name])


def _is_given(capture: Capture, name: str) -> bool:
    try:
        capture.stage(name)
    except UnavailableError:
        return False
    return True


def _sentences(capture: Capture, change: Callable[[], tuple[Change, str]]) -> Iterator[Finding]:
    try:
        yield from fusion_findings(change()[0])
        yield Finding(tally(works(capture)))
    except UnavailableError as why:
        yield Finding(f"{why}.", "unknown")


def _stage(capture: Capture, name: str, full: bool) -> list[Block]:
    """One stage alone; machine code stands kernel by kernel."""
    if name not in BY_NAME or name in ("source", "passes"):
        known = [n for n in BY_NAME if n not in ("source", "passes")]
        raise OptionError(f"no stage {name!r}; {nearest(name, known)}")
    if name in ("llvm", "asm"):
        return stage_blocks.native(capture, name)
    return [stage_blocks.listing(capture.stage(name), full)]


def _compared(capture: Capture, left: str, right: str, full: bool) -> list[Block]:
    """Any two HLO programs of the compile."""
    a, b = find(capture, left), find(capture, right)
    if b.index < a.index:
        a, b = b, a
    rest = dumps(capture)[a.index + 1 : b.index + 1]
    change = between(a.stage.module, b.stage.module, () if length(rest) > TRACE_LIMIT else rest)
    sizes = f"{size(change.before):,} instructions before, {size(change.after):,} after"
    summary = Finding(f"{sizes}: {what(change)}.")
    note = " ".join(filter(None, map(_many, (a, b))))
    return [Findings((summary,)), change_diff(change, a.title, b.title, note, full)]


def _many(program: Named) -> str:
    if not program.others or program.dump is None:
        return ""
    return (
        f"{count(program.others, 'other dump')} of {program.dump.name} changed the program too: "
        "name those by their number."
    )


def _pass(capture: Capture, name: str, full: bool) -> list[Block]:
    """The program after a pass, and what the pass changed."""
    program = find(capture, name)
    stages = dumps(capture)
    if program.dump is None or program.index == 0:
        raise OptionError(f"{name!r} is a stage; expected the name or number of a pass")
    earlier = last_changed(stages, program.index)
    change = between(earlier.stage.module, program.stage.module)
    sentences = [
        f"{title_of(program.dump)}: {what(change)}; {size(change.before):,} instructions before, "
        f"{size(change.after):,} after.",
        meaning(program.dump),
        _many(program),
    ]
    listed = Fold("The program after it", (stage_blocks.listing(program.stage, full),))
    found = Findings(tuple(Finding(text) for text in sentences if text))
    return [found, change_diff(change, title_of(earlier), program.title, "", full), listed]
