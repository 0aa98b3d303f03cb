"""Looks up HLO programs of a compile by the names in options: stages, passes, dump numbers."""

from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.errors import OptionError, UnavailableError, nearest
from jaxlens.ir.facts import PassStage, Stage
from jaxlens.ir.glossary import entry


@dataclass(frozen=True, slots=True)
class Named:
    """An HLO program of a compile.

    Attributes:
        title: Title of its column or heading.
        stage: Its text and module.
        index: Its index among the dumps; the number of dumps for the optimised program.
        dump: Its pass dump; None for the optimised program.
        others: How many other dumps have the same name.
    """

    title: str
    stage: Stage
    index: int
    dump: PassStage | None = None
    others: int = 0


def dumps(subject: Capture) -> tuple[PassStage, ...]:
    """Returns the pass dumps; none if the backend gives none."""
    try:
        return subject.passes
    except UnavailableError:
        return ()


def fusing(subject: Capture) -> tuple[PassStage, ...] | None:
    """Returns at least the dumps of the fusion passes; None if the backend gives none."""
    try:
        return subject.fusing
    except UnavailableError:
        return None


def find(subject: Capture, name: str) -> Named:
    """Returns the HLO program of a name.

    Args:
        subject: The compiled program.
        name: "hlo", "optimized", a pass ("algsimp"), a pipeline with its pass
            ("simplification / algsimp (2)"), or a dump's number.

    Raises:
        OptionError: There is no program of that name.
        UnavailableError: The backend gives no such stage.
    """
    stages = dumps(subject)
    if name == "optimized":
        return Named(subject.optimized.title, subject.optimized, len(stages))
    if name == "hlo":
        return Named(subject.hlo.title, subject.hlo, 0, stages[0] if stages else None)
    if name.isdecimal():
        named = [stage for stage in stages if stage.index == int(name)]
    else:
        named = [stage for stage in stages if name in (stage.name, stage.stage.title)]
    if not named:
        changed = (stage.name for stage in stages or subject.passes if stage.changed)
        names = dict.fromkeys(("hlo", "optimized", *changed))
        if entry("pass", name) is not None:
            raise OptionError(
                f"the pass {name!r} did not change this program, or did not run; choose from "
                f"{', '.join(names)}"
            )
        raise OptionError(f"no pass or HLO stage {name!r}; {nearest(name, names)}")
    first = next((stage for stage in named if stage.changed), named[0])
    namesakes = sum(stage.changed for stage in named) - first.changed
    return Named(title_of(first), first.stage, stages.index(first), first, namesakes)


def title_of(stage: PassStage) -> str:
    """Returns a dump's title: `7: simplification / algsimp`."""
    return f"{stage.index}: {stage.stage.title}"
