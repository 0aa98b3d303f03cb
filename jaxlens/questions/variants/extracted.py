"""One instruction of a program run alone: its outputs and its time, against the whole."""

from dataclasses import dataclass, field
from statistics import median
from typing import Any

from jaxlens.questions.variants.shown import times_table
from jaxlens.report import Finding, Report, Table, cells, count, duration, share


@dataclass(frozen=True)
class Extracted:
    """One instruction of an optimised program, run alone.

    Attributes:
        program: The name of the whole program.
        name: The instruction, or the body of a loop.
        opcode: Its opcode; "body" for a loop's body.
        hlo: Optimised HLO of it alone.
        loop: The loop in whose first iteration it ran; "" outside of loops.
        copied: Whether its program copies the inputs first, which the instruction overwrites.
        inputs: Its inputs as arrays, flat.
        outputs: Its outputs as NumPy arrays, flat.
        equal: Whether the outputs have the bits of those of the program run up to it; None for a
            loop's body, which is not compared.
        runs: Seconds of each run of it alone.
        whole: Seconds of each run of the whole program.
        how: How these were measured.
    """

    program: str
    name: str
    opcode: str
    hlo: str = field(repr=False)
    loop: str
    copied: bool
    inputs: tuple[Any, ...] = field(repr=False)
    outputs: tuple[Any, ...] = field(repr=False)
    equal: bool | None
    runs: tuple[float, ...]
    whole: tuple[float, ...]
    how: str = ""

    @property
    def seconds(self) -> float:
        """Median seconds of one execution alone, measured."""
        return median(self.runs)

    @property
    def share(self) -> float:
        """Seconds of one execution alone over those of the whole program, both medians."""
        return self.seconds / median(self.whole)


def report(facts: Extracted) -> Report:
    """Reports what it computes and takes, in sentences and tables."""
    whole = median(facts.whole)
    times = f"{duration(facts.seconds)} alone, {share(facts.seconds, whole)} of the program's "
    lead = f"{times}{duration(whole)} (medians). "
    is_one = len(facts.outputs) == 1
    noun, that = ("Its output is", "that") if is_one else ("Its outputs are", "those")
    text = f"{noun} bit for bit equal to {that} of the program run up to it."
    if facts.equal is None:
        text = "Its outputs are not compared with the program's, which has no other copy of it."
    elif not facts.equal:
        text = text.replace("bit for bit", "not bit for bit")
    findings = [Finding(text, "compared" if facts.equal is not None else "unknown", lead=lead)]
    if facts.loop:
        first = f"Inputs are those of the first iteration of {facts.loop}, and so are the times."
        findings.append(Finding(first))
    if facts.copied:
        copies = "It overwrites an input: its program copies them first, within the time."
        findings.append(Finding(copies))
    arrays = tuple(
        cells(kind, f"{value.dtype}[{','.join(map(str, value.shape))}]", int(value.nbytes))
        for kind, values in (("input", facts.inputs), ("output", facts.outputs))
        for value in values
    )
    tables = (
        Table("Inputs and outputs", ("", "type", "bytes"), arrays, right=(2,)),
        times_table(((facts.name, facts.runs), (facts.program, facts.whole)), facts.how),
    )
    ran = f"it and the program ran {count(len(facts.runs), 'time')}"
    title = f"{facts.name} ({facts.opcode}) of {facts.program} by itself: {ran}"
    return Report(title, tuple(findings), tables)
