"""Cells of a notebook: their execution numbers, and the jitted functions that they called.

`spans.py` asks for the numbers. They are apart from it, since `%load_ext jaxlens` sets where they
come from: it imports this file in a millisecond and would import that one in 70.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_SOURCE: list[Callable[[], Mapping[str, int]]] = []
_FORGET: list[Callable[[], None]] = []


def cells_from(source: Callable[[], Mapping[str, int]] | None) -> None:
    """Sets the function that gives the execution number of each cell by its file; None for none."""
    _SOURCE[:] = [source] if source else []
    for forget in _FORGET:
        forget()


def number(file: str) -> int | None:
    """The execution number of a cell; None where it is not known."""
    return next((numbers[file] for source in _SOURCE if file in (numbers := source())), None)


def on_change(forget: Callable[[], None]) -> None:
    """Calls `forget` whenever another function is set."""
    _FORGET.append(forget)


@dataclass(frozen=True, slots=True)
class CallSite:
    """Where the user's code called.

    Attributes:
        place: "cell 3:7", "train.py:12"; "" where no line of the user's is on the stack.
        text: The call as written there, in one line; "" if that is unknown.
        top: Whether its names are those of the notebook, and not of a function.
    """

    place: str = ""
    text: str = ""
    top: bool = False


@dataclass(frozen=True, slots=True)
class CalledProgram:
    """A jitted function that was called, at arguments of these shapes.

    Attributes:
        name: The function's name.
        function: What was called, as JAX jitted it.
        own: The user's function, or what a library jits for the user; False for JAX's own.
        args: Positional arguments, shapes in the place of arrays.
        kwargs: Keyword arguments, likewise.
        size: Bytes of the arrays among them.
        site: Where it was called first.
        counted: How often the function was called, at whatever shapes; shared between those.
    """

    name: str
    function: Any
    own: bool
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    size: int
    site: CallSite
    counted: list[int]

    @property
    def calls(self) -> int:
        """How often the function was called, at whatever shapes."""
        return self.counted[0]
