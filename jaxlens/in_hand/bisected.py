"""Which flag, pass, fusion or version makes a program fail a check."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from jaxlens.in_hand.shown import Shown
from jaxlens.report import Finding, Report, Table, cells, count

CheckOutcome = Literal["fine", "at fault", "unknown"]
Kind = Literal["flag", "pass", "fusion"]
_WITHOUT: dict[Kind, tuple[str, str]] = {
    "flag": ("without the flag {}", "without the flags {}"),
    "pass": ("without the pass {}", "without the passes {}"),
    "fusion": ("with the fusion {} taken apart", "with the fusions {} taken apart"),
}
_SHOWN = 4  # names in a sentence


@dataclass(frozen=True, slots=True)
class TrialChange:
    """One thing that a trial leaves out.

    Attributes:
        kind: "flag", "pass" or "fusion".
        name: The flag as it was set, the pass, or the fusion's instruction.
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
        jax: The version of JAX.
    """

    outputs: tuple[Any, ...] = field(repr=False)
    seconds: float | None = None
    temporaries: int | None = None
    kernels: int | None = None
    hlo: str = field(default="", repr=False)
    changes: tuple[TrialChange, ...] = ()
    jax: str = ""


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
        fusions: The fusions without which it does.
        trials: All trials of this version, in order; the first is the program as it is.
        versions: The same program with other interpreters, in the order given.
    """

    name: str
    found: tuple[TrialChange, ...]
    fusions: tuple[TrialChange, ...]
    trials: tuple[TrialOutcome, ...]
    versions: tuple[TrialOutcome, ...] = ()

    @property
    def report(self) -> Report:
        """What makes it fail, in sentences and a table of all trials."""
        compiled = count(len(self.trials) + len(self.versions), "time")
        title = f"bisect of {self.name}: compiled {compiled} and run, in processes of their own"
        rows = tuple(cells(t.tried, t.outcome, t.why) for t in (*self.trials, *self.versions))
        return Report(title, tuple(self._findings()), (Table("Trials", _COLUMNS, rows),))

    def _findings(self) -> list[Finding]:
        first = self.trials[0]
        if first.outcome != "at fault":
            why = f": {first.why}" if first.why else ""
            findings = [Finding(f"The program as it is is {first.outcome}{why}.", "compared")]
        elif self.found:
            findings = [Finding(f"It is fine {in_words(self.found)}.", "compared")]
        else:
            text = "No flag that is set and no pass that was left out makes it fine."
            findings = [Finding(text, "unknown")]
        if self.fusions:
            findings.append(Finding(f"It is fine {in_words(self.fusions)}.", "compared"))
        if self.versions:
            findings.append(self._versions())
        return findings

    def _versions(self) -> Finding:
        by = {
            outcome: [t.tried for t in self.versions if t.outcome == outcome]
            for outcome in ("fine", "at fault", "unknown")
        }
        parts = [f"{outcome} with {', '.join(tried)}" for outcome, tried in by.items() if tried]
        return Finding(f"The same file is {'; '.join(parts)}.", "compared")


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
