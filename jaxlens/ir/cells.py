"""The execution numbers of a notebook's cells.

`spans.py` asks for the numbers. They are apart from it, since `%load_ext jaxlens` sets where they
come from: it imports this file in a millisecond and would import that one in 70.
"""

from collections.abc import Callable, Mapping

_SOURCE: list[Callable[[], Mapping[str, int]]] = []


def cells_from(source: Callable[[], Mapping[str, int]] | None) -> None:
    """Sets the function that gives the execution number of each cell by its file; None for none."""
    _SOURCE[:] = [source] if source else []


def number(file: str) -> int | None:
    """The execution number of a cell; None where it is not known."""
    return next((numbers[file] for source in _SOURCE if file in (numbers := source())), None)
