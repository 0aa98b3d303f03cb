"""The pass timeline: the passes that changed the program, and the number of changes by fate."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from jaxlens.ir.facts import PassStage
from jaxlens.ir.glossary import pass_entry
from jaxlens.ir.hlo.passes import START
from jaxlens.links.match.instruction_fates import ProgramChange, between
from jaxlens.links.match.numbered import NumberedModules
from jaxlens.report import Finding, NumberColumn, Report, Table, count, table

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


def steps(stages: Sequence[PassStage], limit: int | None = None) -> tuple[PassChange, ...]:
    """Returns the dumps that changed the program, with the fates of their instructions.

    Args:
        stages: The dumps, in order.
        limit: Characters of dumps that may be read to say what each pass did; in dumps beyond it,
            instructions are only counted. None for no limit.
    """
    changes = []
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
            sizes = change.before.size, change.after.size
        else:
            n = instructions(earlier.stage.raw) if n is None else n
            sizes = n, instructions(stage.stage.raw)
        changes.append(PassChange(stage, earlier, sizes, change))
        earlier, n = stage, sizes[1]
    return tuple(changes)


def report(
    stages: Sequence[PassStage], changes: Sequence[PassChange], everything: bool = False
) -> Report:
    """Reports the steps in a sentence and a table, with a table of what the passes are for."""
    first = begin(stages, changes)
    last = changes[-1].sizes[1] if changes else first
    finding = Finding(
        f"{count(len(changes), 'dump')} of {len(stages) - 1} changed the program: "
        f"{first:,} instructions before, {last:,} after.",
    )
    tables = (_timeline(stages, changes, everything), _glossary(changes))
    return Report("Passes", (finding,), tables)


def begin(stages: Sequence[PassStage], changes: Sequence[PassChange]) -> int:
    """Returns the number of instructions before the first pass."""
    return changes[0].sizes[0] if changes else instructions(stages[0].stage.raw)


def _timeline(
    stages: Sequence[PassStage], changes: Sequence[PassChange], everything: bool
) -> Table:
    """Returns a table with a row per dump that changed the program."""
    by_index = {change.stage.index: change for change in changes}
    rows = []
    n = begin(stages, changes)
    for stage in stages[1:]:
        change = by_index.get(stage.index)
        if change is not None:
            n = change.sizes[1]
            rows.append((stage.index, named(stage), *change.sizes, did(change)))
        elif everything:
            rows.append((stage.index, named(stage), n, n, "no change"))
    unread = [change for change in changes if change.change is None]
    notes = [] if everything else ["Dumps without a change are hidden."]
    if unread:
        megabytes = sum(len(change.stage.stage.raw) for change in unread) / 1e6
        notes.append(
            f"Of {count(len(unread), 'dump')} ({megabytes:.1f} MB) instructions were counted, "
            "no more: --passes says what each did."
        )
    before, after = (NumberColumn(name, bar="instructions") for name in ("before", "after"))
    columns = (NumberColumn("#"), "pass", before, after, "what it did")
    return table("Passes", columns, rows, " ".join(notes))


def named(stage: PassStage) -> str:
    """Returns the pass of a dump; `start of PIPELINE` for the dump at the start of a pipeline."""
    return f"start of {stage.pipeline}" if stage.name == START else stage.name


def did(change: PassChange) -> str:
    """Returns what a pass did in counts; "" where the fates are unknown."""
    return what(change.change) if change.change else ""


def _glossary(changes: Sequence[PassChange]) -> Table:
    """Returns a table of the passes that changed the program and what each is for."""
    meanings = {change.stage.name: meaning(change.stage) for change in changes}
    rows = (row for row in meanings.items() if row[1])
    return table("What they are for", ("pass", "what it is for"), rows)


def what(change: ProgramChange) -> str:
    """Returns `8 fused, 2 removed, 3 added`, or what changed where no instruction did."""
    tally = Counter[str](fate.name for fate in change.fates.values() if fate.name != "same")
    names = ("fused", "rewritten", "merged", "folded", "removed")
    parts = [f"{tally[name]:,} {name}" for name in names if tally[name]]
    if change.added:
        parts.append(f"{len(change.added):,} added")
    renamed = sum(fate.name == "same" and bool(fate.note) for fate in change.fates.values())
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
    layouts = sum(n.type != old[n.id].type for n in new if n.id in old)
    if layouts:
        return f"{count(layouts, 'layout')} set"
    attrs = sum(dict(n.attrs) != dict(old[n.id].attrs) for n in new if n.id in old)
    if attrs:
        return f"attributes of {count(attrs, 'instruction')}"
    if list(old) != [node.id for node in new]:
        return "order only"
    return "module attributes only"


def meaning(stage: PassStage) -> str:
    """Returns the glossary's sentence on a pass; one that it lacks is unknown, and says so."""
    return pass_entry(stage.name).sentence


def instructions(text: str) -> int:
    """Counts the instructions of an HLO text without parsing it."""
    return len(_INSTRUCTION.findall(text))
