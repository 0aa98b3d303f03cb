"""The jitted functions that a cell called. Apart from `cells.py`, which `%load_ext` imports."""

from dataclasses import dataclass
from typing import Any


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
