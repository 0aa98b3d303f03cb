"""Rows of the table: why a call recompiled, and what it is looked up by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaxlens.ir.needs import Needs
from jaxlens.question import About, Lens, Question

if TYPE_CHECKING:
    from jaxlens.ir.facts import Verdict


def _why() -> Lens[Verdict]:
    from jaxlens.program.call_key import verdict_report

    return Lens(lambda capture: capture.verdict, verdict_report)


WHY = Question(
    "why",
    About(
        "Would this call recompile, and why?",
        counted="the keys that JAX holds, compared part by part; nothing is traced",
    ),
    _why,
    Needs(verdict=True),
    "compile",
    "whether this call would hit JAX's caches, and what is new in it",
    place=10,
)


KEY: Question[Any] = Question(
    "key",
    About(
        "What is a call looked up by in JAX's caches, and would it be found?",
        counted="the key made as JAX makes it, and compared with those that it holds; nothing is "
        "traced",
    ),
    panel=1,
    place=230,
)


RECOMPILES: Question[Any] = Question(
    "recompiles",
    About(
        "Why did it recompile?",
        measured="seconds of each trace, lowering and compile, by JAX; a cure is tried where it "
        "can be without running your program: its key is looked up, it is traced, or the programs "
        "that were made are compared; what was not tried says so",
        counted="each call's key, compared part by part with the nearest earlier one",
    ),
    python="jaxlens.recompiles()`, `assert_compiles(n)`, `key(f, x)",
    place=240,
)


ROWS = (
    WHY,
    KEY,
    RECOMPILES,
)
