"""Which flag or pass makes a program fail a check."""

from dataclasses import dataclass, field
from typing import Any, Literal

from jaxlens.report import Finding, Report, Table, cells, count

CheckOutcome = Literal["fine", "at fault", "unknown"]


@dataclass(frozen=True, slots=True)
class TrialChange:
    """What a trial leaves out.

    Attributes:
        kind: "flag" or "pass".
        name: The flag as it was set, or the pass.
    """

    kind: Literal["flag", "pass"]
    name: str


@dataclass(frozen=True)
class TrialProgram:
    """A program of a trial, as the check gets it.

    Attributes:
        outputs: Its results as NumPy arrays, flat; () if it was not run.
        seconds: Median seconds of a run; None if it was not run.
        temporaries: Bytes of its temporary buffers; None where unknown.
        kernels: Number of its instructions that are run; None where unknown.
        hlo: Its optimised HLO; "" where unknown.
    """

    outputs: tuple[Any, ...] = field(repr=False)
    seconds: float | None = None
    temporaries: int | None = None
    kernels: int | None = None
    hlo: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """What came of a trial.

    Attributes:
        change: What was left out; None for the program as it is.
        outcome: "fine", "at fault", or "unknown" if it did not compile.
        why: Why it is not fine, in a line; "" where the check returned so.
    """

    change: TrialChange | None
    outcome: CheckOutcome
    why: str = ""

    @property
    def tried(self) -> str:
        """What was tried, in words."""
        change = self.change
        return f"without the {change.kind} {change.name}" if change else "as it is"


@dataclass(frozen=True, slots=True)
class Bisected:
    """The result of a bisection.

    Attributes:
        name: The program's name.
        found: The flag or pass without which the program passes the check; None if unknown.
        trials: All trials, in order; the first is the program as it is.
    """

    name: str
    found: TrialChange | None
    trials: tuple[TrialOutcome, ...]


def report(facts: Bisected) -> Report:
    """Reports what makes it fail, in a sentence and a table of all trials."""
    compiled = count(len(facts.trials), "time")
    title = f"bisect of {facts.name}: compiled {compiled} and run, in processes of their own"
    rows = tuple(cells(t.tried, t.outcome, t.why) for t in facts.trials)
    table = Table("Trials", ("tried", "outcome", "why"), rows)
    return Report(title, (_finding(facts),), (table,))


def _finding(facts: Bisected) -> Finding:
    first, last = facts.trials[0], facts.trials[-1]
    if first.outcome != "at fault":
        why = f": {first.why}" if first.why else ""
        return Finding(f"The program as it is is {first.outcome}{why}.", "compared")
    if facts.found:
        return Finding(f"It is fine {last.tried}.", "compared")
    text = "No flag that is set and no pass makes it fine when it alone is left out."
    return Finding(text, "unknown")
