"""Looks up the dumps of passes: of fusion, and by the names in options."""

from jaxlens.errors import OptionError, UnavailableError, nearest
from jaxlens.ir.facts import PassStage
from jaxlens.program.subject import Seen


def fusing(subject: Seen) -> tuple[PassStage, ...] | None:
    """Returns at least the dumps of the fusion passes; None if the backend gives none."""
    try:
        return subject.fusing
    except UnavailableError:
        return None


def find(subject: Seen, name: str) -> tuple[PassStage, int]:
    """Returns the dump of a pass, and how many others of its name changed the program too.

    Args:
        subject: The compiled program.
        name: A pass ("algsimp"), a pipeline with its pass ("simplification / algsimp (2)"), or a
            dump's number.

    Raises:
        OptionError: There is no pass of that name.
        UnavailableError: The backend gives no passes.
    """
    stages = subject.passes[1:]  # the first is the program before all passes
    if name.isdecimal():
        named = [stage for stage in stages if stage.index == int(name)]
    else:
        named = [stage for stage in stages if name in (stage.name, stage.stage.title)]
    if not named:
        names = dict.fromkeys(stage.name for stage in stages if stage.changed)
        raise OptionError(f"no pass {name!r}; {nearest(name, names)}")
    first = next((stage for stage in named if stage.changed), named[0])
    return first, sum(stage.changed for stage in named) - first.changed


def title_of(stage: PassStage) -> str:
    """Returns a dump's title: `7: simplification / algsimp`."""
    return f"{stage.index}: {stage.stage.title}"
