"""Rows of the table: flops and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxlens.ir.needs import Needs
from jaxlens.question import About, Lens, Option, Pane, Question

if TYPE_CHECKING:
    from jaxlens.captures import Capture
    from jaxlens.program.counted import Counted
    from jaxlens.program.subject import Given
    from jaxlens.questions.cost.roofline import CostFacts


def _cost() -> Lens[CostFacts]:
    """What `jaxlens.cost` returns.

    Options:
        roofline: The device whose limits are compared: "here" measures this one, a name such as
            "h100" takes published figures.
        run: How often the program is executed to measure each kernel; 0 executes nothing.

    Returns:
        An answer with `.flops`, `.bytes` (of arguments and results, once each), `.transcendentals`,
        `.by_line` and `.by_node` (flops), `.loops`; `.kernels` (each with `.flops`, `.bytes`,
        `.intensity`, `.lines`), `.limits`, `.points` (each with `.bound` and the best possible
        `.seconds`) and `.seconds` (measured, by instruction).

    Raises:
        OptionError: `roofline` names a device with no published limits.
    """
    from jaxlens.questions.cost.roofline import facts, report
    from jaxlens.questions.cost.view import blocks
    from jaxlens.views.links import weave_small

    return Lens(
        facts,
        report,
        blocks,
        lambda links, facts: weave_small(links, facts.counts.subject),
        run=lambda facts: facts.run,
    )


def _pane(capture: Capture, counted: Given[Counted]) -> Pane:
    from jaxlens.program.subject import Given
    from jaxlens.questions.cost.report import report

    shown = Given(lambda: report(counted.get()))
    return Pane("cost", "Cost", "Flops and bytes, by line.", shown, early=lambda: counted.get())


COST = Question(
    "cost",
    About(
        "Where do flops and bytes go?",
        measured="with --run N: seconds of each kernel, from the profiler, which slows small ones",
        xla="flops and bytes of the optimised program, each loop body once",
        counted="flops by equation, line and kernel, a loop's body as often as it runs, a Pallas "
        "kernel's for each point of its grid, a shard_map's for each device; bytes of main "
        "memory that each kernel reads and writes if no cache helps; bytes of arguments and "
        "results, the least that can move",
    ),
    _cost,
    Needs(compiled=True),
    "compile",
    "flops and bytes by line and kernel, loops counted; with --run N seconds of each",
    options=(
        Option(
            "roofline",
            "",
            "limits of",
            "the same, and the best possible time: of this device, measured, or --roofline=h100",
            "[DEVICE]",
            "device",
            About(
                "Which limit of the device does each kernel run into?",
                measured="with --roofline alone: flops per second of a matrix product and bytes "
                "per second of a pass over memory, once per process, on this device",
                counted="flops and bytes of each kernel; the best possible seconds are an "
                "estimate: flops or bytes over the device's limit, measured, or published by its "
                "maker (--roofline=h100)",
            ),
        ),
        Option("run", 0, "execute it so often, and measure"),
    ),
    panel=5,
    python="jaxlens.cost(f, x).flops",
    place=20,
    runs=True,
    pane=_pane,
)

ROWS = (COST,)
