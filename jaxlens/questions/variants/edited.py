"""A program whose text was changed, against the original: outputs, kernels and time."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from statistics import median

import numpy as np

from jaxlens.report import Finding, Report, Table, count, duration, table
from jaxlens.views.report_blocks import run_table


@dataclass(frozen=True)
class OutputChange:
    """One output of the original and of the changed program.

    Attributes:
        name: Its name in the original.
        before: Its type in the original; "" if there is none.
        after: Its type in the changed program; "" if there is none.
        elements: Number of elements.
        differing: Number of elements whose bits differ; None if the types do.
        largest: The largest difference; None where a value is no finite number, or none differs.
    """

    name: str
    before: str
    after: str
    elements: int
    differing: int | None
    largest: float | None = None

    @property
    def equal(self) -> bool:
        """Whether both have equal bits."""
        return self.differing == 0


@dataclass(frozen=True)
class Edited:
    """The result of an edit.

    Attributes:
        name: The program's name.
        language: "StableHLO", "HLO" or "optimised HLO".
        outputs: The outputs of both, compared; () if neither was run.
        seconds: Seconds of each run of the original.
        edited_seconds: Seconds of each run of the changed program.
        kernels: Numbers of kernels in both; None where the backend does not say.
        how: How the times were measured.
    """

    name: str
    language: str
    outputs: tuple[OutputChange, ...] = ()
    seconds: tuple[float, ...] = ()
    edited_seconds: tuple[float, ...] = ()
    kernels: tuple[int, int] | None = None
    how: str = ""

    @property
    def equal(self) -> bool | None:
        """Whether all outputs have equal bits; None if the programs were not run."""
        return all(output.equal for output in self.outputs) if self.seconds else None


def report(facts: Edited) -> Report:
    """Reports what changed, in sentences and tables."""
    ran = f"both programs ran {count(len(facts.seconds), 'time')} on the same arguments"
    title = f"edited {facts.language} of {facts.name}: {ran if facts.seconds else 'not run'}"
    findings = [_compared(facts)] if facts.seconds else []
    if facts.kernels is not None:
        before, after = facts.kernels
        was = f", before {before}" if before != after else ", as before"
        findings.append(Finding(f"{count(after, 'kernel')}{was}."))
    if facts.language == "HLO":
        text = "The original here is its HLO text, unchanged: XLA's client takes StableHLO, "
        findings.append(Finding(f"{text}to which both texts are converted."))
    tables: tuple[Table, ...] = ()
    if facts.outputs:
        columns = ("output", "original", "edited", "difference")
        outputs = (
            (o.name, o.before or "none", o.after or "none", _difference(o)) for o in facts.outputs
        )
        runs = {"original": facts.seconds, "edited": facts.edited_seconds}
        tables = table("Outputs", columns, outputs), run_table(runs, facts.how)
    return Report(title, tuple(findings), tables)


def _compared(facts: Edited) -> Finding:
    times = [duration(median(each)) for each in (facts.seconds, facts.edited_seconds)]
    lead = f"{times[0]} before, {times[1]} after (medians). "
    changed = [output for output in facts.outputs if not output.equal]
    if not changed:
        n = len(facts.outputs)
        text = "The output is equal" if n == 1 else f"All {n:,} outputs are equal"
        return Finding(f"{text} bit for bit.", "compared", lead=lead)
    worst = max(changed, key=lambda output: (output.differing is None, output.largest or 0))
    how = f"in {_difference(worst)}"
    if worst.differing is None:
        how = f"is {worst.after or 'gone'}, before {worst.before or 'none'}"
    verb = "differs" if len(changed) == 1 else "differ"
    text = f"{count(len(changed), 'output')} of {len(facts.outputs):,} {verb}: {worst.name} {how}."
    return Finding(text, "compared", lead=lead)


def _difference(output: OutputChange) -> str:
    if output.differing is None:
        return "another type"
    if not output.differing:
        return "none"
    by = "" if output.largest is None else f", by at most {output.largest:.3g}"
    return f"{output.differing:,} of {count(output.elements, 'element')}{by}"


def changes(
    names: Sequence[str], before: Sequence[np.ndarray], after: Sequence[np.ndarray]
) -> tuple[OutputChange, ...]:
    """Compares the outputs of two runs by position."""
    longest = max(len(before), len(after))
    called = [*names, *(f"result[{i}]" for i in range(len(names), longest))]
    pairs = zip_longest(before, after)
    return tuple(_change(name, *pair) for name, pair in zip(called, pairs, strict=False))


def _change(name: str, before: np.ndarray | None, after: np.ndarray | None) -> OutputChange:
    types = [
        "" if array is None else f"{array.dtype}[{','.join(map(str, array.shape))}]"
        for array in (before, after)
    ]
    if before is None or after is None or types[0] != types[1]:
        return OutputChange(name, types[0], types[1], 0 if before is None else before.size, None)
    width = f"V{before.dtype.itemsize}"
    unequal = np.ascontiguousarray(before).view(width) != np.ascontiguousarray(after).view(width)
    differing = int(np.count_nonzero(unequal))
    largest = None
    if differing and before.dtype != bool:
        wide = np.complex128 if before.dtype.kind == "c" else np.float64
        distance = np.abs(before.astype(wide) - after.astype(wide))
        largest = float(distance.max()) if np.isfinite(distance).all() else None
    return OutputChange(name, types[0], types[1], before.size, differing, largest)
