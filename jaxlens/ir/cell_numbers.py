"""Who knows the numbers of a notebook's cells: a question that loading the extension answers.

It stands apart from `spans.py`, which asks it, so that loading the extension loads nothing else.
"""

from collections.abc import Callable, Mapping

_ASK: list[Callable[[], Mapping[str, int]]] = []
_FORGET: list[Callable[[], None]] = []


def cells_from(ask: Callable[[], Mapping[str, int]] | None) -> None:
    """Says who knows the numbers of cells, by the name of their file; None for nobody."""
    _ASK[:] = [ask] if ask else []
    for forget in _FORGET:
        forget()


def number(file: str) -> int | None:
    """The number of a cell, where somebody knows it."""
    return next((known[file] for ask in _ASK if file in (known := ask())), None)


def on_change(forget: Callable[[], None]) -> None:
    """Calls `forget` whenever somebody else knows."""
    _FORGET.append(forget)
