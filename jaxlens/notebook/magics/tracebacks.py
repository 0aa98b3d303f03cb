"""Removes the magic's frames from the traceback of the user's exception, and explains it above.

The frames of IPython's magic call and of jaxlens are removed before IPython formats the
traceback; the exception object stays the same, and `%debug` and `%tb` see the user's frames. An
error inside jaxlens keeps every frame, so that it can be reported.

Why a trace failed, and what to write instead, is a card above the traceback, also of a cell without
a magic while `%jaxlens on` watches. Elsewhere the same is a note at the end of it
(`questions/failure`), which the card takes the place of.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from traceback import walk_tb
from typing import Any

from IPython.display import display

from jaxlens.errors import LensError, missing_package
from jaxlens.tracebacks import user_frames


@contextlib.contextmanager
def of_the_user(shell: Any) -> Iterator[None]:
    """Context manager: IPython shows an exception that leaves it with the user's frames only."""
    try:
        yield
    except (LensError, SystemExit):
        raise
    except BaseException as error:
        if not shell.custom_exceptions:  # another custom handler takes precedence
            _set_handler(shell, type(error))
        raise


def says_what_it_needs(magic: Any) -> Any:
    """Returns a magic that raises PackageError if it imports JAX, and JAX is not installed.

    An import in the user's code keeps its traceback.
    """

    @wraps(magic)
    def told(self: Any, line: str, *cell: str) -> Any:
        try:
            return magic(self, line, *cell)
        except ModuleNotFoundError as error:
            trace = error.__traceback__
            if error.name not in ("jax", "jaxlib") or user_frames(trace) is not trace:
                raise
            raise missing_package(f"{'%%' if cell else '%'}{magic.__name__}", error) from None

    return told


def explain_all(shell: Any) -> Callable[[], None]:
    """Explains the exceptions of all cells above their tracebacks, those without a magic too.

    A plain cell's exception gets no note, and keeps all frames: only the card is added.

    Returns:
        What ends it.
    """
    if shell.custom_exceptions or "text/html" not in shell.display_formatter.active_types:
        return lambda: None
    before = shell.CustomTB
    _set_handler(shell, Exception, once=False)
    ours = shell.CustomTB

    def stop() -> None:
        if shell.CustomTB is ours:  # another handler may have come since
            shell.custom_exceptions, shell.CustomTB = (), before

    return stop


def _set_handler(shell: Any, kind: type[BaseException], once: bool = True) -> None:
    """Sets what shows the exceptions of a type, or the next one alone.

    `set_custom_exc` is IPython's hook to change how an exception is shown. It is called when the
    exception has left every frame; before, the traceback is not complete.
    """
    before = shell.CustomTB

    def show(shell: Any, kind: Any, error: Any, trace: Any, tb_offset: Any = None) -> list[str]:
        ours = shell.custom_exceptions, shell.CustomTB
        shell.custom_exceptions, shell.CustomTB = (), before
        users = user_frames(trace)
        is_plain = not once and users is trace
        error.__traceback__ = users
        offset = None if is_plain else 0  # IPython's own frame is the first
        with _explained_above(shell, error, is_plain):
            shell.showtraceback((kind, error, users), tb_offset=offset, running_compiled_code=True)
        if not once:
            shell.custom_exceptions, shell.CustomTB = ours
        return []  # shown already

    shell.set_custom_exc((kind,), show)


@contextlib.contextmanager
def _explained_above(shell: Any, error: BaseException, is_plain: bool = False) -> Iterator[None]:
    """Context manager: displays the explanation of an exception, and hides its note meanwhile."""
    notes, said = getattr(error, "__notes__", []), None
    if (notes or is_plain) and "jax" in sys.modules:
        from jaxlens.questions.failure.verbs import card  # not imported by %load_ext

        with contextlib.suppress(Exception):  # the user's exception is shown whatever happens here
            said = card(error, is_noted=not is_plain)
    if said is None:
        yield
        return
    ours, view = said
    bundle = {"text/plain": view.text(rest="%explain")}
    if "text/html" in shell.display_formatter.active_types:
        bundle["text/html"] = view.html()
    display(bundle, raw=True)
    if not ours:
        yield
        return
    error.__notes__ = [note for note in notes if note != ours]
    try:
        yield
    finally:
        error.__notes__ = notes


def in_traced_code(error: Exception) -> bool:
    """Whether an error of a trace has a frame of the user's below the traced function's wrapper.

    An error of a transform that does not fit its arguments has none.
    """
    from jaxlens.ir.spans import BOUNDARY, describe  # not imported by %load_ext

    files = [frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__)]
    if BOUNDARY not in files:
        return True  # raised elsewhere
    inner = map(describe, files[files.index(BOUNDARY) + 1 :])
    return any(not (file.own or file.library) for file in inner)


def add_notes(failure: BaseException | None, error: Exception) -> None:
    """Adds the notes of a capture's error to the cell's error of the same type, and explains it."""
    from jaxlens.questions.failure.verbs import add_note

    earlier = failure if type(failure) is type(error) else None
    for note in getattr(earlier, "__notes__", ()):
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
    if "jax" in sys.modules:
        add_note(error, earlier)
