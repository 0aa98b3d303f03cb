"""Rows of the table: the memory peak, and what fits a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxlens.ir.needs import Needs
from jaxlens.question import About, Lens, Option, Pane, Question

if TYPE_CHECKING:
    from jaxlens.captures import Capture
    from jaxlens.program.counted import Counted
    from jaxlens.program.subject import Given
    from jaxlens.questions.memory.facts import MemoryFacts
    from jaxlens.questions.memory.fits import FitFacts

_LARGE = 1_000_000  # bytes from which the peak is worth telling


def _memory() -> Lens[MemoryFacts]:
    """What `jaxlens.memory` returns.

    Options:
        checkpoint: Whether to compile the program with JAX's checkpoint policies too.

    Returns:
        An answer in bytes of one device's main memory: `.peak` (the most in use at once, in XLA's
        order of instructions; None if XLA gives no live ranges), `.reserved` (taken from start to
        end), `.arguments`, `.outputs`, `.temporaries`, `.at_peak` (each buffer with `.line`,
        `.bytes`, `.saved`), `.by_line`, `.residuals`, `.donations` and `.tried`. `.spaces` has the
        device's other memories, such as a TPU's VMEM (each with `.name`, `.peak`, `.reserved`).

    Raises:
        UnavailableError: The backend gives no sizes, or `checkpoint` cannot be tried.
    """
    from jaxlens.questions.memory.checkpoint import all_facts
    from jaxlens.questions.memory.report import report
    from jaxlens.questions.memory.view import blocks
    from jaxlens.views.links import weave_small

    return Lens(all_facts, report, blocks, lambda links, facts: weave_small(links, facts.subject()))


def _pane(capture: Capture, counted: Given[Counted]) -> Pane:
    from jaxlens.program.subject import Given
    from jaxlens.questions.memory.facts import facts
    from jaxlens.questions.memory.report import report

    found = Given(lambda: facts(capture))

    def is_told() -> bool:
        """Whether the peak is large or unknown."""
        peak = Given(lambda: found.get().peak).or_else(None)
        return peak is None or peak >= _LARGE

    help = "What is in memory when it is most, by line and by value."
    shown = Given(lambda: report(found.get()))
    return Pane("memory", "Memory", help, shown, is_told, lambda: found.get())


MEMORY = Question(
    "memory",
    About(
        "Which line owns the memory peak?",
        measured="with --checkpoint: the program under jax.checkpoint, compiled anew, not run",
        xla="sizes, places and live ranges of all buffers (its buffer assignment), per device",
        counted="what is in use at once: arguments and constants all the time, results once they "
        "are written, temporaries while they are needed; the line that made each, followed back "
        "through loops and copies; each memory of the device, such as a TPU's VMEM, by itself; "
        "what autodiff saves, from the jaxpr",
    ),
    _memory,
    Needs(compiled=True),
    "compile",
    "which line owns the memory peak, what autodiff saves, donation",
    options=(
        Option(
            "checkpoint",
            False,
            "try JAX's checkpoint policies (compiles up to nine programs more)",
            "the same, and what jax.checkpoint would change, by trying each policy",
            about=About(
                "Which checkpoint policy?",
                measured="the program under jax.checkpoint with each of JAX's policies, at the "
                "calls that have it, else round each scan's body or the whole function; and "
                "without any; each compiled anew and not run",
                counted="peak, bytes in the host's memory, saved bytes (by checkpoint_name) and "
                "flops of each, counted like those of the program itself",
            ),
        ),
    ),
    panel=4,
    python="jaxlens.memory(f, x).peak",
    place=30,
    pane=_pane,
)


def _fits() -> Lens[FitFacts]:
    from jaxlens.questions.memory.fits import facts, report

    return Lens(facts, report)


FITS = Question(
    "fits",
    About(
        "Will it fit a device, and what would make it?",
        measured="where it does not fit: the program under jax.checkpoint, compiled anew and not "
        "run",
        xla="what the program reserves from start to end (its buffer assignment), per device",
        counted="bytes of the inputs that could be donated; the device's memory is its maker's "
        "figure, and of a GPU the share that JAX takes by default",
    ),
    _fits,
    verb="compile",
    help='whether it fits a device (--fits h100, --fits "16 GB"), and what would make it',
    metavar="DEVICE",
    values="device",
    place=40,
)
"""It needs no compile beforehand: that XLA refuses to compile is an answer to it."""


ROWS = (
    MEMORY,
    FITS,
)
