"""Rows of the table: what JAX does without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxlens.question import About, Lens, Question, jaxpr_web

if TYPE_CHECKING:
    from jaxlens.questions.silent.facts import Silent


def _silent() -> Lens[Silent]:
    """What `jaxlens.silent` returns.

    Returns:
        An answer with `.found` and `.faults`, each with `.kind` ("key", "index", "gradient",
        "unread", "order"), `.sentence`, `.line`, `.span`, `.spans`, `.name`, and for an index
        `.index`, `.size` and `.iterations`.

    Raises:
        UnavailableError: It is a program of `jaxlens.core`, or its arrays have been freed.
    """
    from jaxlens.questions.silent.facts import facts
    from jaxlens.questions.silent.report import blocks, report

    return Lens(facts, report, blocks, jaxpr_web)


SILENT = Question(
    "silent",
    About(
        "What does JAX do without a word: keys used twice, clamped indices, zero gradients?",
        measured="indices out of bounds, in one run of the program; donated arguments stay valid",
        counted="keys that are used twice, arguments that no result depends on or that have no "
        "gradient, and sums in any order, from the jaxpr",
    ),
    _silent,
    verb="check",
    help="keys used twice, indices out of bounds (runs it), arguments without gradient",
    kind="silent",
    python="jaxlens.silent(f, x)",
    place=210,
)


ROWS = (SILENT,)
