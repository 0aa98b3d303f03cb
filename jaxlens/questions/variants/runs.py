"""Programs taken in hand: written to a file, changed, or run in part."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Reproducer:
    """A program as one file of Python that needs jax alone.

    Attributes:
        path: The file.
        text: What it holds.
        data: The file with the arguments' values; "" where they are drawn.
    """

    path: str
    text: str = field(repr=False)
    data: str = ""

    def __repr__(self) -> str:
        lines = self.text.count("\n")
        values = f"reads its arguments from {self.data}" if self.data else "draws its arguments"
        what = f"{lines:,} lines that need jax alone; it {values}"
        return f"{self.path}: {what}. Run: python {self.path}"


@dataclass(frozen=True)
class ProgramRun:
    """Some executions of a program.

    Attributes:
        seconds: Seconds of each run, in order.
        outputs: The results of the last run as NumPy arrays, flat.
        how: How it was measured, in words.
    """

    seconds: tuple[float, ...]
    outputs: tuple[Any, ...] = field(repr=False)
    how: str = ""


@dataclass(frozen=True)
class ExtractedRun:
    """One instruction of an optimised program, run alone.

    Attributes:
        name: The instruction, or the body of a loop.
        opcode: Its opcode; "body" for a loop's body.
        text: Optimised HLO of it alone.
        loop: The loop in whose first iteration it ran; "" outside of loops.
        copied: Whether its program copies the inputs first, which the instruction overwrites.
        inputs: Its inputs as arrays, flat.
        outputs: Its outputs as NumPy arrays, flat.
        equal: Whether the outputs have the bits of those of the program run up to it; None for a
            loop's body, which is not compared.
        seconds: Seconds of each run of it alone.
        whole_seconds: Seconds of each run of the whole program.
        how: How these were measured.
    """

    name: str
    opcode: str
    text: str = field(repr=False)
    loop: str
    copied: bool
    inputs: tuple[Any, ...] = field(repr=False)
    outputs: tuple[Any, ...] = field(repr=False)
    equal: bool | None
    seconds: tuple[float, ...]
    whole_seconds: tuple[float, ...]
    how: str = ""
