"""Buffers what a trace prints, which is shown only if the cell does not run the call itself."""

import sys
import threading
from typing import Any

from IPython.utils.capture import capture_output

from jaxlens.interrupts import deferred, undoing


class Printed:
    """Context manager that buffers what this thread prints and displays.

    What other threads print passes through. An exception, such as an interrupt, ends the cell: what
    was printed before it is shown.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[Any, str]] = []
        self._displays: Any = capture_output(stdout=False, stderr=False, display=True)
        self._displayed: Any = None
        self._before: tuple[Any, Any] = (None, None)

    def __enter__(self) -> "Printed":
        with deferred(self._undo):
            self._before = sys.stdout, sys.stderr
            self._displayed = self._displays.__enter__()
            sys.stdout, sys.stderr = (_Stream(stream, self._parts) for stream in self._before)
            return self

    def __exit__(self, *raised: Any) -> None:
        self._undo()
        if raised[0] is not None:
            self.show()

    @undoing
    def _undo(self) -> None:
        sys.stdout, sys.stderr = self._before
        self._displays.__exit__(None, None, None)

    def show(self) -> None:
        """Prints and displays the buffered output."""
        for stream, text in self._parts:
            stream.write(text)
        for output in self._displayed.outputs:
            output.display()


class _Stream:
    """A stream that buffers what one thread writes, and passes on what others write."""

    def __init__(self, stream: Any, parts: list[tuple[Any, str]]) -> None:
        self._stream = stream
        self._parts = parts
        self._thread = threading.get_ident()

    def write(self, text: str) -> int:
        if threading.get_ident() != self._thread:
            return int(self._stream.write(text) or 0)
        self._parts.append((self._stream, text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
