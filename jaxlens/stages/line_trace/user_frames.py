"""Which running functions are the user's, and who is told what their lines do.

Two ways of following them stand behind one interface: `frames_monitored.py`, which Python 3.12
and later offer and which costs libraries nothing, and `frames_traced.py`, which works everywhere.
"""

from types import CodeType, FrameType
from typing import Any, Literal, Protocol

from jaxlens.ir.spans import describe

Left = Literal["return", "yield", "raise"]
_TOLD = ("jax/_src/monitoring.py", "jax\\_src\\monitoring.py")


class Listener(Protocol):
    """Who follows functions; told of those alone that it wants, in the order in which they run."""

    def began(self, frame: FrameType, again: bool) -> bool:
        """A function begins, or a generator goes on.

        Returns:
            Whether to tell what it does until it is left.
        """

    def line(self, frame: FrameType, line: int) -> None:
        """A line is about to run."""

    def raised(self, frame: FrameType, kind: type[BaseException]) -> None:
        """A line raises, or what it called did; StopIteration, by which loops end, is not told."""

    def left(self, frame: FrameType, how: Left, value: Any) -> None:
        """The function returns, yields, or is left by an exception; the value is then None."""


def may_be_users(code: CodeType) -> bool:
    """Whether a file is the user's: no library's, and none that was made at run time."""
    file = describe(code.co_filename)
    return not file.library and not file.own


def is_users(frame: FrameType) -> bool:
    """Whether a function of such a file was written, and is a part of what runs.

    What `exec` made has a name as `<string>`. A listener of JAX's events is only told of them.
    """
    code, caller = frame.f_code, frame.f_back
    if caller is not None and caller.f_code.co_filename.endswith(_TOLD):
        return False
    if not code.co_filename.startswith("<") or code.co_filename.startswith("<ipython"):
        return True
    return frame.f_globals.get("__name__") == "__main__" and not code.co_qualname.startswith("__cr")
