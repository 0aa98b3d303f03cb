"""The pass timeline: which passes changed the program, and what each did to it in counts."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.ir.facts import PassStage
from jaxlens.ir.glossary import entry
from jaxlens.ir.graph import Module
from jaxlens.ir.hlo.passes import START
from jaxlens.links.match.instruction_fates import ProgramChange, between
from jaxlens.links.match.numbered import NumberedModules
from jaxlens.report import Cell, Finding, Report, Table, cells, count

_INSTRUCTION = re.compile(r"\n +(?:ROOT )?%?[^\s=]+ = ")  # five times as quick as with "^"


@dataclass(frozen=True, slots=True)
class PassChange:
    """A dump that changed the program.

    Attributes:
        stage: The dump.
        before: The dump that it is to be seen against.
        sizes: Instructions before and after.
        change: What became of every instruction; None where that was not worked out.
    """

    stage: PassStage
    before: PassStage
    sizes: tuple[int, int]
    change: ProgramChange | None


def passes(capture: Capture, everything: bool = False, limit: int | None = None) -> Report:
    """Which passes changed the program.

    Args:
        capture: A capture whose backend dumps passes.
        everything: List the dumps that changed nothing too.
        limit: Characters of dumps that may be read to say what each pass did; of those beyond,
            instructions are counted only. None for no limit.

    Raises:
        UnavailableError: The backend dumps no passes.
    """
    stages = capture.passes
    return report(stages, steps(stages, limit), everything)


def steps(stages: Sequence[PassStage], limit: int | None = None) -> tuple[PassChange, ...]:
    """The dumps that changed something, each with what it changed, as far as `limit` goes."""
    found = []
    earlier = stages[0]
    n: int | None = None
    left = limit
    programs = NumberedModules()
    for stage in stages[1:]:
        if not stage.changed:
            continue
        if left is not None:
            left = left - len(stage.stage.text) if left > 0 else -1
        change = None
        if left is None or left >= 0:
            change = between(earlier.stage.module, stage.stage.module, (), programs)
            programs.forget(earlier.stage.module)
            sizes = size(change.before), size(change.after)
        else:
            n = instructions(earlier.stage.raw) if n is None else n
            sizes = n, instructions(stage.stage.raw)
        found.append(PassChange(stage, earlier, sizes, change))
        earlier, n = stage, sizes[1]
    return tuple(found)


def report(
    stages: Sequence[PassStage], done: Sequence[PassChange], everything: bool = False
) -> Report:
    """The steps in a sentence and a table, and what the passes are for."""
    first = begin(stages, done)
    last = done[-1].sizes[1] if done else first
    finding = Finding(
        f"{count(len(done), 'dump')} of {len(stages) - 1} changed the program: "
        f"{first:,} instructions before, {last:,} after.",
    )
    tables = (timeline(stages, done, everything), glossary([step.stage for step in done]))
    return Report("Passes", (finding,), tables)


def begin(stages: Sequence[PassStage], done: Sequence[PassChange]) -> int:
    """Instructions before any pass."""
    return done[0].sizes[0] if done else instructions(stages[0].stage.raw)


def timeline(
    stages: Sequence[PassStage], done: Sequence[PassChange], everything: bool = False
) -> Table:
    """One row per dump that changed the program."""
    known = {step.stage.index: step for step in done}
    rows = []
    n = begin(stages, done)
    for stage in stages[1:]:
        step = known.get(stage.index)
        if step is not None:
            n = step.sizes[1]
            rows.append((*_names(stage), *cells(*step.sizes), Cell(did(step))))
        elif everything:
            rows.append((*_names(stage), *cells(n, n), Cell("no change")))
    columns = ("#", "pass", "before", "after", "what it did")
    return Table("Passes", columns, tuple(rows), _left_out(done, everything), right=(0, 2, 3))


def _left_out(done: Sequence[PassChange], everything: bool) -> str:
    unread = [step for step in done if step.change is None]
    notes = [] if everything else ["Dumps without a change are hidden."]
    if unread:
        megabytes = sum(len(step.stage.stage.raw) for step in unread) / 1e6
        notes.append(
            f"Of {count(len(unread), 'dump')} ({megabytes:.1f} MB) instructions were counted, "
            "no more: --passes says what each did."
        )
    return " ".join(notes)


def _names(stage: PassStage) -> tuple[Cell, ...]:
    return (Cell(str(stage.index), stage.index), Cell(named(stage)))


def named(stage: PassStage) -> str:
    """The pass of a dump; for one that opens a pipeline, that it does."""
    return f"start of {stage.pipeline}" if stage.name == START else stage.name


def did(step: PassChange) -> str:
    """What a step did in counts; "" where that was not worked out."""
    return what(step.change) if step.change else ""


def glossary(stages: Sequence[PassStage]) -> Table:
    """What the passes among these dumps are for, each once."""
    told = {stage.name: meaning(stage) for stage in stages}
    rows = tuple(cells(name, sentence) for name, sentence in told.items() if sentence)
    return Table("What they are for", ("pass", "what it is for"), rows)


def what(change: ProgramChange) -> str:
    """`8 fused, 2 removed, 3 added` or what else is known of a change without such counts."""
    tally = Counter(fate.name for fate in change.fates.values() if fate.name != "same")
    parts = [
        f"{tally[name]:,} {name}"
        for name in ("fused", "rewritten", "merged", "folded", "removed")
        if tally[name]
    ]
    if change.added:
        parts.append(f"{len(change.added):,} added")
    renamed = sum(1 for fate in change.fates.values() if fate.name == "same" and fate.note)
    if renamed:
        parts.append(f"{renamed:,} renamed")
    return ", ".join(parts) or _quiet(change)


def _quiet(change: ProgramChange) -> str:
    """What can differ where every instruction is the same."""
    before = [name for name, region in change.before.regions.items() for _ in region.nodes]
    after = [name for name, region in change.after.regions.items() for _ in region.nodes]
    if before != after:
        return "copied or moved computations"
    old = {node.id: node for node in change.before.nodes()}
    new = list(change.after.nodes())
    layouts = sum(1 for n in new if n.id in old and _layouts(n.type) != _layouts(old[n.id].type))
    if layouts:
        return f"{count(layouts, 'layout')} set"
    attrs = sum(1 for n in new if n.id in old and dict(n.attrs) != dict(old[n.id].attrs))
    if attrs:
        return f"attributes of {count(attrs, 'instruction')}"
    if list(old) != [node.id for node in new]:
        return "order only"
    return "module attributes only"


def _layouts(type_: object) -> str:
    return repr(type_)


def meaning(stage: PassStage) -> str:
    """One sentence on a pass; "" for one that the glossary does not have."""
    found = entry("pass", stage.name)
    return found.sentence if found else ""


def instructions(text: str) -> int:
    """How many instructions an HLO text spells out, without reading it."""
    return len(_INSTRUCTION.findall(text))


def size(module: Module) -> int:
    """All instructions of a program, those inside fusions and reducers too."""
    return sum(len(region.nodes) for region in module.regions.values())
