"""Builds the blocks of the passes: findings, then the steps with the rows of each.

Dumps are compared up to a limit of characters; steps beyond it have only a count of instructions,
and a running kernel serves their rows, one step at a time (`step`).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

from jaxlens.captures import Capture
from jaxlens.errors import OptionError, UnavailableError
from jaxlens.ir.facts import PassStage
from jaxlens.ir.graph import Module
from jaxlens.ir.stage import BY_NAME
from jaxlens.links.linked import Linked
from jaxlens.links.links import Links
from jaxlens.links.match.instruction_fates import between
from jaxlens.program.passes import (
    PassChange,
    begin,
    did,
    meaning,
    named,
    report,
    steps,
)
from jaxlens.render.document import Block, Findings, PassRow, PassStep, PassSteps
from jaxlens.render.html.passes import left_out
from jaxlens.render.link_data import Web
from jaxlens.report import Finding
from jaxlens.views.passes.hlo_programs import fusing
from jaxlens.views.passes.rows import LineCache, rows, whole

READ = 1_500_000  # characters of dumps that are compared for a pane that few users open
_ROWS = 60_000  # maximum rows of one output, about 300 kB

Atoms = Callable[[Module], Mapping[str, tuple[int, ...]]]
"""Returns the atoms of an HLO module's instructions, by id (see `link_data.py`)."""


def passes_blocks(
    subject: Capture,
    *,
    limit: int | None = READ,
    everything: bool = False,
    atoms: Atoms | None = None,
) -> list[Block]:
    """Returns the blocks of the passes that changed the program, each with its changes.

    Args:
        subject: The program.
        limit: Maximum characters of dumps to compare; None for no limit.
        everything: Whether to list the dumps without changes too.
        atoms: Returns the atoms of a dump's instructions, which link them with other panes.

    Raises:
        UnavailableError: The backend dumps no passes.
    """
    few = limit is not None and bool(fusing(subject)) and not subject.has_all_passes
    stages = subject.fusing if few else subject.passes
    changes = steps(stages, 0 if few else limit)
    answer = report(stages, changes, everything)
    findings = list(answer.findings)
    if few:
        why = "The program is large, so only the passes that fuse were dumped"
        text = f"{why}: --passes runs all of them again and says what each did."
        findings.append(Finding(text, "unknown"))
    cache: LineCache = {}
    compared = bool(changes) and changes[0].change is not None
    shown = [_first(stages[0], begin(stages, changes), atoms, cache if compared else None)]
    room = _ROWS - len(shown[0].rows or ())
    for change in changes:
        lines = rows(change.change, cache) if change.change and room > 0 else None
        room -= len(lines or ())
        shown.append(_step(change, lines if room >= 0 else None, atoms))
    note = left_out(sum(row.rows is None for row in shown))
    return [Findings(tuple(findings)), PassSteps(tuple(shown), answer.tables, note)]


def beside(links: Links, web: Web) -> Atoms:
    """Returns a function that maps a pass dump to atoms, with the same numbers as `web`."""
    stages = [stage for stage in web.atoms if stage in BY_NAME]
    memo: dict[int, tuple[Module, Mapping[str, tuple[int, ...]]]] = {}

    @cache  # computed when the first dump is shown
    def linked() -> Linked:
        return links.linked(*stages)

    def atoms(module: Module) -> Mapping[str, tuple[int, ...]]:
        if id(module) not in memo:  # `memo` keeps the module alive, so its id is not reused
            memo[id(module)] = module, linked().reach(module).all
        return memo[id(module)][1]

    return atoms


def _first(stage: PassStage, size: int, atoms: Atoms | None, cache: LineCache | None) -> PassStep:
    """Returns the step before optimisation; without a cache of lines, it has no rows."""
    bare = PassStep(stage.index, stage.stage.title, stage.name, size)
    if cache is None:
        return bare
    module = stage.stage.module
    return replace(bare, rows=whole(module, cache), atoms=atoms(module) if atoms else {})


def _step(step: PassChange, lines: tuple[PassRow, ...] | None, atoms: Atoms | None) -> PassStep:
    stage = step.stage
    bare = PassStep(
        stage.index, stage.stage.title, named(stage), step.sizes[1], did(step), meaning(stage)
    )
    if lines is None:
        return bare
    ends = (step.before, stage) if atoms else ()  # removed instructions have their earlier links
    linked = {id: n for end in ends if atoms for id, n in atoms(end.stage.module).items()}
    return replace(bare, rows=lines, atoms=linked)


def step(subject: Capture, index: int, atoms: Atoms | None = None) -> PassStep:
    """Returns one step with its rows, without a limit on the program's size.

    Args:
        subject: The program.
        index: `PassStep.index`, of a dump that the capture has already.
        atoms: As for `passes_blocks`.

    Raises:
        OptionError: There is no such step.
        UnavailableError: The backend dumps no passes.
    """
    stages = subject.passes if subject.has_all_passes else fusing(subject)
    if not stages:
        raise UnavailableError("this backend dumps no passes; capture.passes says why")
    earlier = stages[0]
    if earlier.index == index:
        return _first(earlier, earlier.stage.module.size, atoms, {})
    for stage in stages[1:]:
        if stage.changed and stage.index == index:
            change = between(earlier.stage.module, stage.stage.module)
            sizes = change.before.size, change.after.size
            return _step(PassChange(stage, earlier, sizes, change), rows(change), atoms)
        earlier = stage if stage.changed else earlier
    numbers = ", ".join(str(stage.index) for stage in stages if stage.changed)
    raise OptionError(f"no pass {index} that changed the program; choose from {numbers}")
