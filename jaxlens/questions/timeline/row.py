"""Rows of the table: who waits for whom."""

from __future__ import annotations

from typing import Any

from jaxlens.question import About, Question

TIMELINE: Question[Any] = Question(
    "timeline",
    About(
        "Who waits for whom, at which line?",
        measured="dispatches, waits and executions of one run, by JAX's profiler; the line of "
        "each by the clock; a wait is a time in which Python stood still, so a value that is "
        "read when it is ready is none",
        counted="which program a wait was for (it ended then), and how many programs were "
        "dispatched without a wait between them",
    ),
    python="jaxlens.timeline(f, x)",
    place=250,
)


ROWS = (TIMELINE,)
