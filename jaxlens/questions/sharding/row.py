"""Rows of the table: which device holds what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxlens.ir.needs import Needs
from jaxlens.question import About, Lens, Option, Question

if TYPE_CHECKING:
    from jaxlens.captures import Capture
    from jaxlens.questions.sharding.facts import Sharding


def _sharding() -> Lens[Sharding]:
    """What `jaxlens.sharding` returns.

    Returns:
        An answer with `.devices`, `.axes` of the mesh, `.inputs`, `.outputs` and `.values` (each
        with `.tiling`, `.spec` and `.piece`), `.collectives` (each with `.opcode`, `.bytes`,
        `.groups`, `.over`, `.trips`, `.lines`), `.sent` (bytes that a device sends in one run),
        `.reasons` (what cuts the values of a collective's op, and what asked for it), `.overlaps`
        (the kernels beside each collective) and, with `reshard=True`, `.others`.
    """
    from jaxlens.questions.sharding.facts import facts
    from jaxlens.questions.sharding.report import report
    from jaxlens.questions.sharding.view import blocks
    from jaxlens.views.links import weave_small

    return Lens(
        facts,
        report,
        blocks,
        lambda links, facts: weave_small(links, facts.subject()),
        devices=lambda facts: facts.devices,
    )


def _of_several_devices(capture: Capture, reshard: bool = False) -> Needs:
    """Returns what sharding needs: every pass on several devices, no compile on one."""
    from jaxlens.program.subject import devices

    return Needs(passes=devices(capture) > 1)


SHARDING = Question(
    "sharding",
    About(
        "Which device holds what, and what travels between them?",
        xla="shardings of all values, as its partitioner was given them; collectives and their "
        "groups in the program that one device runs",
        counted="bytes of each piece and collective, times as often as its loops run; what a "
        "device sends is an estimate, as if each group were a ring; what asked for a cut, by the "
        "steps of Shardy's propagation, run once more; what runs beside a collective, by XLA's "
        "schedule",
    ),
    _sharding,
    _of_several_devices,
    "compile",
    "which device holds what, and what travels between them",
    options=(
        Option(
            "reshard",
            False,
            "try other shardings (compiles up to four programs more)",
            "the same, and what would travel with other shardings, by trying",
            about=About(
                "What would another sharding change?",
                measured="the program without each cut that its largest collective is for, "
                "compiled anew and not run",
            ),
        ),
    ),
    panel=8,
    python="jaxlens.sharding(f, x)",
    place=60,
)


ROWS = (SHARDING,)
