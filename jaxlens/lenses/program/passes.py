"""The pass timeline: the passes that changed the program, and the number of changes by fate."""

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

_INSTRUCTION = re.compile(r"\n +(?:ROOT )?%?[^\s=]+ = ")  # five times as fast as with "^"


@dataclass(frozen=True, slots=True)
class PassChange:
    """A dump that changed the program.

    Attributes:
        stage: The dump.
        before: The last dump before it that changed the program.
        sizes: Numbers of instructions before and after.
        change: The fate of every instruction; None beyond the limit of dumps to read.
    """

    stage: PassStage
    before: PassStage
    sizes: tuple[int, int]
    change: ProgramChange | None


def passes(capture: Capture, everything: bool = False, limit: int | None = None) -> Report:
    """Reports the passes that changed the program.

    Args:
        capture: A capture whose backend dumps passes.
        everything: List the dumps that changed nothing too.
        limit: Characters of dumps that may be read to say what each pass did; in dumps beyond it,
            instructions are only counted. None for no limit.

    Raises:
        UnavailableError: The backend dumps no passes.
    """
    stages = capture.passes
    return report(stages, steps(stages, limit), everything)


def steps(stages: Sequence[PassStage], limit: int | None = None) -> tuple[PassChange, ...]:
    """Returns the dumps that changed the program, with the fates of instructions up to `limit`."""
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
    """Reports the steps in a sentence and a table, with a table of what the passes are for."""
    first = begin(stages, done)
    last = done[-1].sizes[1] if done else first
    finding = Finding(
        f"{count(len(done), 'dump')} of {len(stages) - 1} changed the program: "
        f"{first:,} instructions before, {last:,} after.",
    )
    tables = (timeline(stages, done, everything), glossary([step.stage for step in done]))
    return Report("Passes", (finding,), tables)


def begin(stages: Sequence[PassStage], done: Sequence[PassChange]) -> int:
    """Returns the number of instructions before the first pass."""
    return done[0].sizes[0] if done else instructions(stages[0].stage.raw)


def timeline(
    stages: Sequence[PassStage], done: Sequence[PassChange], everything: bool = False
) -> Table:
    """Returns a table with a row per dump that changed the program."""
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
    """Returns the pass of a dump; `start of PIPELINE` for the dump at the start of a pipeline."""
    return f"start of {stage.pipeline}" if stage.name == START else stage.name


def did(step: PassChange) -> str:
    """Returns what a step did in counts; "" where its fates are unknown."""
    return what(step.change) if step.change else ""


def glossary(stages: Sequence[PassStage]) -> Table:
    """Returns a table of the passes of these dumps and what each is for."""
    told = {stage.name: meaning(stage) for stage in stages}
    rows = tuple(cells(name, sentence) for name, sentence in told.items() if sentence)
    return Table("What they are for", ("pass", "what it is for"), rows)


def what(change: ProgramChange) -> str:
    """Returns `8 fused, 2 removed, 3 added`, or what changed where no instruction did."""
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
    """Returns what differs where every instruction has the fate "same"."""
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
    """Returns the glossary's sentence on a pass; "" where it has none."""
    found = entry("pass", stage.name)
    return found.sentence if found else ""


def instructions(text: str) -> int:
    """Counts the instructions of an HLO text without parsing it."""
    return len(_INSTRUCTION.findall(text))


def size(module: Module) -> int:
    """Returns the number of instructions of a module, those in fusions and reducers included."""
    return sum(len(region.nodes) for region in module.regions.values())
