"""Rows of the table: which device holds what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxlens.ir.needs import Needs
from jaxlens.question import About, Lens, Question

if TYPE_CHECKING:
    from jaxlens.captures import Capture
    from jaxlens.questions.sharding.facts import Sharding


def _sharding() -> Lens[Sharding]:
    """What `jaxlens.sharding` returns.

    Returns:
        An answer with `.devices`, `.axes` of the mesh, `.inputs`, `.outputs` and `.values` (each
        with `.tiling`, `.spec` and `.piece`), `.collectives` (each with `.opcode`, `.bytes`,
        `.groups`, `.over`, `.trips`, `.lines`), and `.sent` (bytes that a device sends in one run).
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


def _of_several_devices(capture: Capture) -> Needs:
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
        "device sends is an estimate, as if each group were a ring",
    ),
    _sharding,
    _of_several_devices,
    "compile",
    "which device holds what, and what travels between them",
    panel=8,
    python="jaxlens.sharding(f, x)",
    place=60,
)


ROWS = (SHARDING,)
