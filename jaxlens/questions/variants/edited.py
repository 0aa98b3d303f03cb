"""A program whose text was changed, against the original: outputs, kernels and time."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from statistics import median
from typing import Any

import numpy as np

from jaxlens.questions.variants.runs import ProgramRun
from jaxlens.questions.variants.shown import Shown, times_table
from jaxlens.report import Finding, Report, Table, cells, count, duration


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


@dataclass(frozen=True, repr=False)
class Edited(Shown):
    """The result of an edit.

    Attributes:
        name: The program's name.
        language: "StableHLO", "HLO" or "optimised HLO".
        capture: The Capture of the changed program.
        outputs: The outputs of both, compared; () if neither was run.
        seconds: Seconds of each run of the original.
        edited_seconds: Seconds of each run of the changed program.
        kernels: Numbers of kernels in both; None where the backend does not say.
        how: How the times were measured.
    """

    name: str
    language: str
    capture: Any = field(repr=False)
    outputs: tuple[OutputChange, ...] = ()
    seconds: tuple[float, ...] = ()
    edited_seconds: tuple[float, ...] = ()
    kernels: tuple[int, int] | None = None
    how: str = ""

    @property
    def equal(self) -> bool | None:
        """Whether all outputs have equal bits; None if the programs were not run."""
        return all(output.equal for output in self.outputs) if self.seconds else None

    @property
    def report(self) -> Report:
        """What changed, in sentences and tables."""
        ran = f"both programs ran {count(len(self.seconds), 'time')} on the same arguments"
        title = f"edited {self.language} of {self.name}: {ran if self.seconds else 'not run'}"
        findings = [self._compared()] if self.seconds else []
        if self.kernels is not None:
            before, after = self.kernels
            was = f", before {before}" if before != after else ", as before"
            findings.append(Finding(f"{count(after, 'kernel')}{was}."))
        if self.language == "HLO":
            converted = (
                "The original here is its HLO text, unchanged: XLA's client takes StableHLO, "
            )
            findings.append(Finding(f"{converted}to which both texts are converted."))
        tables = [self._table()] if self.outputs else []
        if self.seconds:
            rows = (("original", self.seconds), ("edited", self.edited_seconds))
            tables.append(times_table("Measured", rows, self.how))
        return Report(title, tuple(findings), tuple(tables))

    def _compared(self) -> Finding:
        times = [duration(median(each)) for each in (self.seconds, self.edited_seconds)]
        lead = f"{times[0]} before, {times[1]} after (medians). "
        changed = [output for output in self.outputs if not output.equal]
        if not changed:
            n = len(self.outputs)
            text = "The output is equal" if n == 1 else f"All {n:,} outputs are equal"
            return Finding(f"{text} bit for bit.", "compared", lead=lead)
        worst = max(changed, key=lambda output: (output.differing is None, output.largest or 0))
        text = f"{count(len(changed), 'output')} of {len(self.outputs):,} differ"
        text += "s" if len(changed) == 1 else ""
        return Finding(f"{text}: {_words(worst)}.", "compared", lead=lead)

    def _table(self) -> Table:
        rows = tuple(
            cells(o.name, o.before or "none", o.after or "none", _difference(o))
            for o in self.outputs
        )
        return Table("Outputs", ("output", "original", "edited", "difference"), rows)


def _words(output: OutputChange) -> str:
    if output.differing is None:
        return f"{output.name} is {output.after or 'gone'}, before {output.before or 'none'}"
    return f"{output.name} in {_difference(output)}"


def _difference(output: OutputChange) -> str:
    if output.differing is None:
        return "another type"
    if not output.differing:
        return "none"
    by = "" if output.largest is None else f", by at most {output.largest:.3g}"
    return f"{output.differing:,} of {count(output.elements, 'element')}{by}"


def changes(
    names: Sequence[str], before: ProgramRun, after: ProgramRun
) -> tuple[OutputChange, ...]:
    """Compares the outputs of two runs by position."""
    longest = max(len(before.outputs), len(after.outputs))
    called = [*names, *(f"result[{i}]" for i in range(len(names), longest))]
    pairs = zip_longest(before.outputs, after.outputs)
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
