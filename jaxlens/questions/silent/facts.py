"""The faults of a program that JAX does not mention."""

from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.errors import OptionError, UnavailableError
from jaxlens.program.subject import ProgramFacts
from jaxlens.questions.silent.faults import Fault, Faults, IndexOutside


@dataclass(frozen=True, slots=True)
class Silent(ProgramFacts):
    """What JAX does in a program without a word.

    Attributes:
        faults: The faults: keys, indices, arguments, then operations.
        platform: Where the program is to run.
        not_run: Why no index was looked at; "" if the program was run.
    """

    faults: tuple[Fault, ...]
    platform: str
    not_run: str = ""

    @property
    def found(self) -> bool:
        """Whether there is a fault."""
        return bool(self.faults)


def facts(capture: Capture) -> Silent:
    """Reasons from the jaxpr, and runs the program once if it indexes anything.

    Raises:
        UnavailableError: It is a program of `jaxlens.core`, or has been freed or saved.
    """
    target, not_run = capture.program.target, ""
    outside: tuple[IndexOutside, ...] = ()
    try:
        live = capture.driver.live()  # raises before JAX is imported
        from jaxlens.questions.silent.measure import indices_outside

        outside = indices_outside(live)
    except (OptionError, UnavailableError) as error:
        if isinstance(error, UnavailableError) and not target.absent:
            raise
        not_run = str(error)
    look = Faults(capture)
    faults = [*look.keys(), *look.indices(outside), *look.arguments()]
    if target.platform == "gpu" and "deterministic" not in " ".join(capture.program.flags):
        faults += look.orders()
    return Silent(tuple(faults), target.platform, not_run, _subject=capture)
