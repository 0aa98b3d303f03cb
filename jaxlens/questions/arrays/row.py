"""Rows of the table: the arrays that live now."""

from __future__ import annotations

from typing import Any

from jaxlens.question import About, Question

ARRAYS: Question[Any] = Question(
    "arrays",
    About(
        "What lives on each device, and what grew?",
        measured="the arrays that live now (`jax.live_arrays`), and the line that made each, by "
        "the stack that JAX keeps with it; nothing is computed or copied",
        counted="bytes by shape, dtype and sharding; the names by a search through the variables, "
        "their containers, attributes and closures, and the last error's traceback; what keeps the "
        "others alive by Python's garbage collector; arrays of one buffer count once",
    ),
    python="jaxlens.arrays()",
    place=260,
)


ROWS = (ARRAYS,)
