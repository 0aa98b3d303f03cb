"""Rows of the table: what changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jaxlens.question import About, Question

AGAINST: Question[Any] = Question(
    "against",
    About(
        "What changed since then?",
        measured="seconds of each step, once each",
        xla="memory and bytes accessed of both programs",
        counted="which equations and instructions are the same: by what they compute, then by the "
        "text of their line; flops of the equations",
    ),
    verb="compile",
    help="what changed since what -o NAME stored",
    metavar="NAME",
    values="capture",
    panel=10,
    python="jaxlens.compare(a, b)`, `receipt(f, x)",
    place=120,
)


AGAINST_JAXPR = replace(AGAINST, verb="jaxpr", panel=0, python="", place=130)


USES = ("fusion", "memory")
ROWS = (
    AGAINST,
    AGAINST_JAXPR,
)
