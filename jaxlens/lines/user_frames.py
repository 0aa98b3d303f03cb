"""Selects the frames of user code, and defines the interface that receives their events.

There are two implementations: `frames_monitored.py` needs Python 3.12 and adds no cost to library
code; `frames_traced.py` works on every version.
"""

from types import CodeType, FrameType
from typing import Any, Literal, Protocol

from jaxlens.ir.spans import describe

Left = Literal["return", "yield", "raise"]
_CELLS = ("<ipython", "<cell ")
_MONITORING = ("jax/_src/monitoring.py", "jax\\_src\\monitoring.py")


class Listener(Protocol):
    """Receives the events of user frames, in the order in which they run."""

    def began(self, frame: FrameType, again: bool) -> bool:
        """Called when a function begins, or a generator resumes.

        Returns:
            Whether to report further events of this frame.
        """

    def line(self, frame: FrameType, line: int) -> None:
        """Called before a line runs."""

    def raised(self, frame: FrameType, kind: type[BaseException]) -> None:
        """Called when a line, or a call on it, raises; not for StopIteration, which ends loops."""

    def left(self, frame: FrameType, how: Left, value: Any) -> None:
        """Called when the function returns, yields or propagates an exception (value: None)."""


def may_be_users(code: CodeType) -> bool:
    """Whether code is from a user's file or cell: not a library's, JAX's or generated code."""
    file = describe(code.co_filename)
    return not file.library and not file.own


def is_users(frame: FrameType) -> bool:
    """Whether a frame runs source code that the user wrote, as a part of the traced program.

    False for generated code, whose file name is like `<string>`, except in `__main__` and for the
    course's answers (`<cell 3.1>`); and for listeners of JAX's events, which run during a trace but
    are no part of it.
    """
    code, caller = frame.f_code, frame.f_back
    if caller is not None and caller.f_code.co_filename.endswith(_MONITORING):
        return False
    if not code.co_filename.startswith("<") or code.co_filename.startswith(_CELLS):
        return True
    return frame.f_globals.get("__name__") == "__main__" and not code.co_qualname.startswith("__cr")
