"""What the cells of a session compiled: asked by no magic, shown below each cell (`verbs.py`)."""

from typing import Any

from jaxlens.question import Question

USES = ("recompiles",)
ROWS: tuple[Question[Any], ...] = ()
