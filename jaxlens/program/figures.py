"""THE TABLE of figures of a program, which `compare` compares and `receipt` asserts or bounds.

A traced figure needs no compile. None means that the backend does not provide the figure.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf
from typing import Any, Literal

from jaxlens.captures import Capture
from jaxlens.errors import OptionError, UnavailableError, nearest
from jaxlens.ir.columns import counts
from jaxlens.ir.hlo.buffers import Buffers
from jaxlens.ir.hlo.live_ranges import Live, live, reserved, spaces
from jaxlens.ir.trips import RunCount, runs
from jaxlens.program import counted as cost
from jaxlens.program.fusion_change import operations
from jaxlens.program.kernel_cost import instruction_costs
from jaxlens.program.kernels import joins
from jaxlens.program.sentences import unknown_trips
from jaxlens.report import read_amount, total

Unit = Literal["", "flop", "B"]


class Figures:
    """The figures of one capture, each computed on first use.

    Attributes:
        capture: The capture.
        missing: Why a figure is missing, by name, of those that `get` computed.
    """

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.missing: dict[str, str] = {}

    def __getattr__(self, name: str) -> int | None:
        """A figure of the table by its name, as in `jaxlens.explore(f, x).kernels`."""
        if name not in FIGURES:
            raise AttributeError(name)
        return self.get(name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *FIGURES]

    @cached_property
    def primitives(self) -> Mapping[str, int]:
        """Number of equations by primitive, each nested body once."""
        return dict(sorted(counts(self.capture.jaxpr.module).items()))

    @cached_property
    def counted(self) -> cost.Cost:
        """Flops and bytes of the equations, loops multiplied by known trip counts."""
        return cost.facts(self.capture, compiled=False)

    @cached_property
    def operations(self) -> Mapping[str, int]:
        """Number of optimised instructions by opcode, without those inside fusions."""
        return Counter(node.opcode for node in operations(self.capture.optimized.module))

    @cached_property
    def joined(self) -> int:
        """Number of fusions of several operations; XLA puts single ones into a fusion too."""
        module = self.capture.optimized.module
        fusions = (node for node in operations(module) if node.opcode == "fusion")
        return sum(1 for node in fusions if len(joins(node, module)) > 1)

    @cached_property
    def called(self) -> Mapping[str, int]:
        """Number of kernels and library calls of the executable, by kind."""
        return Counter(kernel.kind for kernel in self.capture.kernels)

    @cached_property
    def assignment(self) -> Buffers | None:
        """XLA's buffer assignment; None if the backend provides none."""
        return self.capture.assignment

    @cached_property
    def ranges(self) -> Live | None:
        """Live ranges in main memory, of which the peak is that of `jaxlens.memory(f)`."""
        return live(self.assignment) if self.assignment else None

    @cached_property
    def elsewhere(self) -> int | None:
        """Sum of the peaks, in bytes, of all memory spaces but main memory (a TPU's VMEM)."""
        if self.assignment is None:
            return None
        by_space = (live(self.assignment, number) for number in spaces(self.assignment))
        return sum(ranges.bytes for ranges in by_space if ranges is not None)

    def of_equations(self, name: str) -> int | None:
        """Returns a sum over the equations by its name in `Cost`.

        Raises:
            UnavailableError: It needs the trips of a loop, and they are unknown.
        """
        value: int | None = getattr(self.counted, name)
        if value is None and self.counted.open:
            raise UnavailableError(unknown_trips(self.counted.open))
        return value

    @cached_property
    def executions(self) -> int:
        """How often kernels and library calls start in a run.

        Raises:
            UnavailableError: It needs the trips of a loop, and they are unknown.
        """
        module = self.capture.optimized.module
        often = {n.id: r for name, r in runs(module).items() for n in module.regions[name].nodes}
        kernels = [k for k in self.capture.kernels if k.kind in ("kernel", "library call")]
        known = [often.get(kernel.instruction, RunCount(1)) for kernel in kernels]
        if loops := [loop for one in known for loop in one.open]:
            raise UnavailableError(unknown_trips(loops))
        return sum(one.times for one in known)

    @cached_property
    def moved(self) -> int | None:
        """Bytes of main memory that kernels read and write in a run.

        Raises:
            UnavailableError: It needs the trips of a loop, and they are unknown.
        """
        costs = instruction_costs(self.capture.optimized.module)
        if loops := [loop for cost in costs for loop in cost.open]:
            raise UnavailableError(unknown_trips(loops))
        return total(cost.bytes for cost in costs)

    def get(self, name: str) -> int | None:
        """Returns a figure by name; None if it is missing, with the reason in `missing`."""
        try:
            return FIGURES[name].of(self)
        except UnavailableError as why:
            self.missing[name] = str(why)
            return None


@dataclass(frozen=True, slots=True)
class Metric:
    """The definition of one figure.

    Attributes:
        noun: Its name in sentences: "fusion", "temporary memory".
        of: Computes it; may raise UnavailableError.
        unit: Its unit; "" for a count.
        compiled: Whether it needs the compiled program.
        named: Its name in tables, where that is another than the noun or its plural.
    """

    noun: str
    of: Callable[[Figures], int | None]
    unit: Unit = ""
    compiled: bool = True
    named: str = ""

    @property
    def title(self) -> str:
        """Its name in tables."""
        return self.named or (self.noun if self.unit else f"{self.noun}s")


def _xla(key: str) -> Callable[[Figures], int | None]:
    def of(figures: Figures) -> int | None:
        value = figures.capture.cost.get(key, -1.0)
        return int(value) if 0 <= value < inf else None

    return of


_traced = partial(Metric, compiled=False)
FIGURES: Mapping[str, Metric] = {
    "equations": _traced("equation", lambda f: sum(f.primitives.values())),
    "flops": _traced("flops", lambda f: f.of_equations("flops"), "flop"),
    "transcendentals": _traced("transcendental", lambda f: f.of_equations("transcendentals")),
    "bytes": _traced(
        "arguments and results",
        lambda f: f.of_equations("bytes"),
        "B",
        named="bytes of arguments and results",
    ),
    "instructions": Metric(
        "instruction",
        lambda f: sum(f.operations.values()),
        named="instructions, loop bodies once",
    ),
    "fusions": Metric("fusion", lambda f: f.joined, named="fusions of several operations"),
    "kernels": Metric("kernel", lambda f: f.called.get("kernel", 0)),
    "library_calls": Metric("library call", lambda f: f.called.get("library call", 0)),
    "executions": Metric(
        "kernel execution", lambda f: f.executions, named="executions of kernels and calls"
    ),
    "temporaries": Metric("temporary memory", lambda f: f.capture.memory.temporaries, "B"),
    "peak": Metric("memory at the peak", lambda f: f.ranges.bytes if f.ranges else None, "B"),
    "on_chip": Metric(
        "memory on the chip", lambda f: f.elsewhere, "B", named="memory on the chip, at its peak"
    ),
    "reserved": Metric(
        "memory reserved", lambda f: reserved(f.capture.memory, f.assignment, f.ranges), "B"
    ),
    "xla_flops": Metric("flops by XLA", _xla("flops"), "flop", named="flops by XLA, loops once"),
    "xla_bytes": Metric(
        "bytes accessed by XLA's account",
        _xla("bytes accessed"),
        "B",
        named="bytes accessed by XLA's account, loops once",
    ),
    "moved": Metric("bytes moved", lambda f: f.moved, "B", named="bytes that kernels move"),
}
"""The figures by name."""
_EXAMPLES: Mapping[Unit, str] = {"": "12", "flop": "1e9 or 2Gflop", "B": "1e6 or 2GB"}


def figure_text(value: Any) -> str:
    """Returns a figure, or another fact, in words; "not given" for None."""
    if value is None:
        return "not given"
    return f"{value:,}" if isinstance(value, int) else str(value)


def split_bounds(text: str) -> dict[str, float]:
    """Returns bounds by figure of a text such as "peak=2GB, flops=1e9".

    Raises:
        OptionError: There is no part, one is no `name=number`, a figure is none or there twice.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if wrong := [part for part in parts or [text] if "=" not in part]:
        raise OptionError(f"a budget is written peak=2GB,flops=1e9,kernels=12, got {wrong[0]!r}")
    bounds = {k.strip(): v for k, _, v in (part.partition("=") for part in parts)}
    if len(bounds) < len(parts):
        raise OptionError(f"one bound for each figure, got {text!r}")
    return read_bounds(bounds)


def read_bounds(bounds: Mapping[str, float | str]) -> dict[str, float]:
    """Returns bounds as numbers; kB is 1,000 bytes and KiB 1,024.

    Raises:
        OptionError: There is no such figure, or a bound is no number or has another unit.
    """
    numbers = {}
    for name, bound in bounds.items():
        if name not in FIGURES:
            raise OptionError(f"no figure {name!r} to bound; {nearest(name, FIGURES)}")
        number, unit = read_amount(str(bound)), FIGURES[name].unit
        end = str(bound).strip().lower().removesuffix("s")
        if number is None or any(end.endswith(u.lower()) for u in {"flop", "B"} - {unit}):
            text = f"the bound of {name} is a number such as {_EXAMPLES[unit]}, got {bound!r}"
            raise OptionError(text)
        numbers[name] = number
    return numbers
