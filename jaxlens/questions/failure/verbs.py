"""The verb that explains why a trace failed."""

import sys
from dataclasses import replace
from typing import Any

from jaxlens.views.view import View

__all__ = ["explain"]


def explain(error: BaseException | None = None, *, remedies: bool = True) -> View[Any] | None:
    """Explains why tracing failed: the line, the traced value, and what to write instead.

    An exception raised by a verb, or by a stage of a capture, already has the answer as a note
    (`error.__notes__`). Any other exception is explained from its traceback.

    Args:
        error: The exception; by default the last one that Python or IPython displayed.
        remedies: Whether to say what to write instead.

    Returns:
        A view: `str(view)` is its text, `view.html()` its HTML. None if there is no exception, or
        if it does not come from tracing.
    """
    from jaxlens.questions.failure.measure.explain import explanation
    from jaxlens.questions.failure.view import document

    error = error or getattr(sys, "last_value", None)
    cause = explanation(error) if error is not None else None
    if cause is None:
        return None
    shown = cause if remedies else replace(cause, remedies=())
    return View(None, lambda: document(shown), know=lambda: shown)


def card(error: BaseException, is_noted: bool = True) -> tuple[str, View[Any]] | None:
    """Returns the note of an explained exception, and the view that stands for it; None without.

    Args:
        error: The exception.
        is_noted: Whether it must have its explanation as a note; else it is explained now.
    """
    from jaxlens.questions.failure.measure.explain import noted

    note = noted(error)
    explained = explain(error) if note or not is_noted else None
    return (note, explained) if explained is not None else None


def add_note(error: Exception, earlier: BaseException | None = None) -> None:
    """Adds what `explain` says of an exception as a note; see `measure/explain.py`."""
    from jaxlens.questions.failure.measure import explain

    explain.add_note(error, earlier)
