"""Programs made of a program: asked by no option of a magic (`verbs.py`)."""

from typing import Any

from jaxlens.question import Question

ROWS: tuple[Question[Any], ...] = ()
