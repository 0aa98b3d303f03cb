"""Why a trace failed: asked by no magic, shown where a cell raises (`measure/explain.py`)."""

from typing import Any

from jaxlens.question import Question

ROWS: tuple[Question[Any], ...] = ()


def when_a_trace_fails(error: Exception, call: Any, place: Any) -> None:
    """Adds to the exception of a trace or a lowering why it failed; see `measure/explain.py`."""
    from jaxlens.questions.failure.measure.explain import explain

    explain(error, call, place)
