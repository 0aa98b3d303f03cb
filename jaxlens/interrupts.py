"""Defers interrupts while something is set up or undone: half of either would stay for good.

Python raises KeyboardInterrupt between any two instructions of the main thread: after a folder is
made and before its `try`, or within a `finally`.
"""

import functools
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ContextDecorator, contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class deferred:  # noqa: N801 -- it is called like a function, as `contextlib.suppress` is
    """A context manager in which an interrupt waits until the end of the block.

    The block should be short, and wait for nothing. In other threads, where Python raises no
    interrupts, it does nothing.

    Args:
        undo: Undoes what the block did; called before an interrupt is raised at its end.
    """

    def __init__(self, undo: Callable[[], object] = lambda: None) -> None:
        self._undo = undo
        self._came = False
        self._handler: Any = None

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._handler = signal.getsignal(signal.SIGINT)  # None: it was not set by Python
            if self._handler is not None:
                signal.signal(signal.SIGINT, self._hear)

    def _hear(self, *_: object) -> None:
        self._came = True

    def __exit__(self, *_: object) -> None:
        if self._handler is not None:
            try:
                signal.signal(signal.SIGINT, self._handler)
                if self._came:
                    signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                self._undo()
                raise


def undoing(function: Callable[P, T]) -> Callable[P, T]:
    """Defers interrupts during a function that undoes something, and may be called twice.

    It is, where an interrupt comes before they are deferred.
    """

    @functools.wraps(function)
    def whole(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            with deferred():
                return function(*args, **kwargs)
        except KeyboardInterrupt:
            with deferred():
                function(*args, **kwargs)
            raise

    return whole


def uninterrupted(
    function: Callable[P, Iterator[T]],
) -> Callable[P, "_Uninterrupted[T]"]:
    """Makes a context manager of a generator function, as `contextlib.contextmanager` does.

    Interrupts are deferred before its `yield` and after it, and raised in the block as ever. Where
    one came before the `yield`, what follows the `yield` runs and the block does not.
    """
    manager = contextmanager(function)

    @functools.wraps(function)
    def made(*args: P.args, **kwargs: P.kwargs) -> "_Uninterrupted[T]":
        return _Uninterrupted(functools.partial(manager, *args, **kwargs))

    return made


@uninterrupted
def temporary_folder() -> Iterator[Path]:
    """Makes a folder, which is removed at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="jaxlens-") as name:
        yield Path(name)


class _Uninterrupted(AbstractContextManager[T], ContextDecorator):
    def __init__(self, make: Callable[[], AbstractContextManager[T]]) -> None:
        self._make, self._manager = make, make()

    def _recreate_cm(self) -> "_Uninterrupted[T]":
        return _Uninterrupted(self._make)

    def __enter__(self) -> T:
        interrupt = KeyboardInterrupt()
        with deferred(lambda: self.__exit__(KeyboardInterrupt, interrupt, None)):
            return self._manager.__enter__()

    @undoing
    def __exit__(self, *raised: Any) -> bool | None:
        return self._manager.__exit__(*raised)  # a finished generator does nothing
