"""What ran out of memory: asked by no magic, shown below a traceback (`verbs.py`)."""

from typing import Any

from jaxlens.question import Question

USES = ("memory",)
ROWS: tuple[Question[Any], ...] = ()
