"""Which flag or pass makes a program fail a check."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from jaxlens.questions.variants.shown import Shown
from jaxlens.report import Finding, Report, Table, cells, count

CheckOutcome = Literal["fine", "at fault", "unknown"]
Kind = Literal["flag", "pass"]
_WITHOUT: dict[Kind, tuple[str, str]] = {
    "flag": ("without the flag {}", "without the flags {}"),
    "pass": ("without the pass {}", "without the passes {}"),
}
_SHOWN = 4  # names in a sentence


@dataclass(frozen=True, slots=True)
class TrialChange:
    """One thing that a trial leaves out.

    Attributes:
        kind: "flag" or "pass".
        name: The flag as it was set, or the pass.
    """

    kind: Kind
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
        changes: What was left out.
    """

    outputs: tuple[Any, ...] = field(repr=False)
    seconds: float | None = None
    temporaries: int | None = None
    kernels: int | None = None
    hlo: str = field(default="", repr=False)
    changes: tuple[TrialChange, ...] = ()


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """What came of a trial.

    Attributes:
        tried: What was tried, in words.
        outcome: "fine", "at fault", or "unknown" if it did not compile.
        why: Why it is not fine, in a line; "" where the check returned so.
        changes: What was left out.
    """

    tried: str
    outcome: CheckOutcome
    why: str = ""
    changes: tuple[TrialChange, ...] = ()


@dataclass(frozen=True, repr=False)
class Bisected(Shown):
    """The result of a bisection.

    Attributes:
        name: The program's name.
        found: The flags and passes without which the program passes the check; () if unknown.
        trials: All trials, in order; the first is the program as it is.
    """

    name: str
    found: tuple[TrialChange, ...]
    trials: tuple[TrialOutcome, ...]

    @property
    def report(self) -> Report:
        """What makes it fail, in sentences and a table of all trials."""
        compiled = count(len(self.trials), "time")
        title = f"bisect of {self.name}: compiled {compiled} and run, in processes of their own"
        rows = tuple(cells(t.tried, t.outcome, t.why) for t in self.trials)
        return Report(title, (self._finding(),), (Table("Trials", _COLUMNS, rows),))

    def _finding(self) -> Finding:
        first = self.trials[0]
        if first.outcome != "at fault":
            why = f": {first.why}" if first.why else ""
            return Finding(f"The program as it is is {first.outcome}{why}.", "compared")
        if self.found:
            return Finding(f"It is fine {in_words(self.found)}.", "compared")
        return Finding(
            "No flag that is set and no pass that was left out makes it fine.", "unknown"
        )


_COLUMNS = ("tried", "outcome", "why")


def in_words(changes: Sequence[TrialChange]) -> str:
    """Returns changes of one kind as the end of a sentence; "" for none."""
    if not changes:
        return ""
    names = [change.name for change in changes]
    if len(names) > _SHOWN:
        names = [*names[: _SHOWN - 1], f"{len(names) - _SHOWN + 1} more"]
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return _WITHOUT[changes[0].kind][len(changes) > 1].format(listed)
