"""THE TABLE of facts: what is asked of a program beside its stages, a typed row each.

A driver answers a row by its method of the row's name, and has none for what its source lacks. In
files a fact has the row's name. A new fact is a row, a method of the drivers that know it, and a
property of `Capture`, which says what it is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from jaxlens.ir.facts import (
    Constant,
    Input,
    Kernel,
    LineTrace,
    Memory,
    Profile,
    Source,
    Timing,
    Verdict,
)

T = TypeVar("T")


@dataclass(frozen=True)
class FactRow(Generic[T]):
    """A fact of a program.

    Attributes:
        name: Its name in files, and of the method that answers it.
        type: Its type, as JSON is read to.
        noun: What is missing where a driver does not know it, for the message.
        stage: What it is saved with: "jaxpr", "compiled", or "" for what is always saved.
        default: Returns it where a driver does not know it, from the driver's holder; by default
            it is missing.
        costs: Whether it may take another compile or trace: saved only where it is recorded.
    """

    name: str
    type: Any
    noun: str
    stage: str
    default: Callable[[str], T] | None = None
    costs: bool = False


def no_call(holder: str) -> Verdict:
    """The cache verdict where there is a program but no call of it."""
    return Verdict(None, reasons=(f"{holder} is looked at, and no call that they could hold",))


OUTPUTS = FactRow[tuple[Input, ...]]("outputs", tuple[Input, ...], "names of results", "jaxpr")
CONSTANTS = FactRow[tuple[Constant, ...]](
    "constants", tuple[Constant, ...], "list of captured arrays", "jaxpr"
)
VERDICT = FactRow[Verdict]("verdict", Verdict, "cache verdict", "jaxpr", no_call)
TAPE = FactRow[LineTrace]("tape", LineTrace, "tape of its tracing", "jaxpr", costs=True)
SOURCES = FactRow[Mapping[str, Source]]("sources", Mapping[str, Source], "source text", "jaxpr")
KERNELS = FactRow[tuple[Kernel, ...]]("kernels", tuple[Kernel, ...], "kernels", "compiled")
MEMORY = FactRow[Memory]("memory", Memory, "sizes of memory", "compiled")
COST = FactRow[Mapping[str, float]]("cost", Mapping[str, float], "cost analysis", "compiled")
BUFFERS = FactRow[str]("buffers", str, "buffer assignment", "compiled")
FUSION_LOG = FactRow[str]("fusion_log", str, "reasons for what XLA fused", "compiled", costs=True)
PROFILE = FactRow[Profile]("profile", Profile, "profile of its compile", "compiled", costs=True)
TIMES = FactRow[tuple[Timing, ...]]("times", tuple[Timing, ...], "times", "", lambda holder: ())

SAVED = (
    OUTPUTS, CONSTANTS, VERDICT, MEMORY, COST, BUFFERS, FUSION_LOG, TIMES, PROFILE, TAPE,
)  # fmt: skip
"""Facts that files have as they are; kernels and sources are in parts of their own."""
