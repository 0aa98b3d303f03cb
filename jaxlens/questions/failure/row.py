"""Why a trace failed: asked by no magic, shown where a cell raises (`running.py`)."""

from typing import Any

from jaxlens.question import Question

ROWS: tuple[Question[Any], ...] = ()
