"""One instruction of a program run alone: its outputs and its time, against the whole."""

from dataclasses import dataclass, field
from statistics import median
from typing import Any

from jaxlens.questions.variants.runs import ExtractedRun
from jaxlens.questions.variants.shown import Shown, times_table
from jaxlens.report import Finding, Report, Table, cells, count, duration, share


@dataclass(frozen=True, repr=False)
class Extracted(Shown):
    """The result of an extraction.

    Attributes:
        program: The name of the whole program.
        run: What was run, and its inputs, outputs and times.
        capture: The Capture of the instruction as a program of its own.
    """

    program: str
    run: ExtractedRun = field(repr=False)
    capture: Any = field(repr=False)

    @property
    def equal(self) -> bool | None:
        """Whether the outputs have the bits of those of the program run up to it."""
        return self.run.equal

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The instruction's inputs as arrays, flat."""
        return self.run.inputs

    @property
    def outputs(self) -> tuple[Any, ...]:
        """Its outputs as NumPy arrays, flat."""
        return self.run.outputs

    @property
    def hlo(self) -> str:
        """Optimised HLO of the instruction alone."""
        return self.run.text

    @property
    def seconds(self) -> float:
        """Median seconds of one execution alone, measured."""
        return median(self.run.seconds)

    @property
    def share(self) -> float:
        """Seconds of one execution alone over those of the whole program, both medians."""
        return self.seconds / median(self.run.whole_seconds)

    @property
    def report(self) -> Report:
        """What it computes and takes, in sentences and tables."""
        run = self.run
        whole = median(run.whole_seconds)
        times = f"{duration(self.seconds)} alone, {share(self.seconds, whole)} of the program's "
        lead = f"{times}{duration(whole)} (medians). "
        is_one = len(run.outputs) == 1
        noun, that = ("Its output is", "that") if is_one else ("Its outputs are", "those")
        text = f"{noun} bit for bit equal to {that} of the program run up to it."
        if run.equal is None:
            text = "Its outputs are not compared with the program's, which has no other copy of it."
        elif not run.equal:
            text = text.replace("bit for bit", "not bit for bit")
        findings = [Finding(text, "compared" if run.equal is not None else "unknown", lead=lead)]
        if run.loop:
            first = f"Inputs are those of the first iteration of {run.loop}, and so are the times."
            findings.append(Finding(first, "counted"))
        if run.copied:
            copies = "It overwrites an input: its program copies them first, within the time."
            findings.append(Finding(copies, "counted"))
        rows = [("input", value) for value in run.inputs]
        rows += [("output", value) for value in run.outputs]
        arrays = tuple(
            cells(kind, f"{value.dtype}[{','.join(map(str, value.shape))}]", int(value.nbytes))
            for kind, value in rows
        )
        tables = (
            Table("Inputs and outputs", ("", "type", "bytes"), arrays, right=(2,)),
            times_table(
                "Measured", ((run.name, run.seconds), (self.program, run.whole_seconds)), run.how
            ),
        )
        ran = f"it and the program ran {count(len(run.seconds), 'time')}"
        title = f"{run.name} ({run.opcode}) of {self.program} by itself: {ran}"
        return Report(title, tuple(findings), tables)
