"""Reads what is written to the stderr of a Jupyter kernel, by C++ too, as ipykernel forwards it.

ipykernel replaces file descriptor 2 by a pipe, and a thread of its own reads the pipe and sends the
text to the front end. A hook of its stream, which is public, sees each message on its way and
changes nothing. Descriptors are left alone: a pipe of ours would lose the last words of a process
that aborts (38 of 40 times, measured), and outlive the watch in every process that the cell starts.
In a terminal, where nobody reads descriptor 2, nothing is read, and XLA's text is on the screen.
"""

import contextlib
import os
import stat
import sys
import time
from typing import Any

_KEPT = 200_000  # characters
_LONGEST = 0.05  # seconds to wait for text that ipykernel has not read yet
_STEP = 0.001


class KernelStderr:
    """The text that a kernel sent to stderr lately."""

    def __init__(self) -> None:
        self._text = ""
        self._stream: Any = None

    def start(self) -> None:
        """Starts to read, where stderr is a stream of ipykernel's."""
        stream = sys.stderr
        if self._stream is None and hasattr(stream, "register_hook"):
            thread = getattr(stream, "pub_thread", None)
            if thread is not None:
                self._stream = stream
                # hooks belong to the thread that registers them, and this one sends
                thread.schedule(lambda: stream.register_hook(self._sent))

    def stop(self) -> None:
        """Stops reading."""
        stream, self._stream, self._text = self._stream, None, ""
        if stream is not None and stream.pub_thread is not None:
            stream.pub_thread.schedule(lambda: stream.unregister_hook(self._sent))

    def read(self) -> str:
        """Returns what was written since the last call; waits until ipykernel has read it all."""
        if self._stream is None:
            return ""
        end = time.monotonic() + _LONGEST
        while _unread() and time.monotonic() < end:
            time.sleep(_STEP)
        time.sleep(_STEP)  # between ipykernel's read of the pipe and its write to the stream
        self._stream.flush()
        text, self._text = self._text, ""
        return text

    def _sent(self, message: dict[str, Any]) -> dict[str, Any]:
        with contextlib.suppress(Exception):  # the message is sent in any case
            self._text = (self._text + message["content"]["text"])[-_KEPT:]
        return message


def _unread() -> bool:
    """Whether the pipe behind descriptor 2 has text that was not read yet."""
    with contextlib.suppress(ImportError, OSError):  # Windows; no pipe
        import fcntl
        import termios

        if stat.S_ISFIFO(os.fstat(2).st_mode):
            count = fcntl.ioctl(2, termios.FIONREAD, b"\0\0\0\0")
            return int.from_bytes(count, sys.byteorder) > 0
    return False
