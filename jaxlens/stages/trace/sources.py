"""Reads the source text of every file and notebook cell that a program's spans refer to."""

import linecache
import os
import sys
from collections.abc import Callable, Mapping
from importlib.util import decode_source
from itertools import chain

from jaxlens.ir.columns import mentioned
from jaxlens.ir.driver import Driver
from jaxlens.ir.facts import Source
from jaxlens.ir.graph import Module, Span
from jaxlens.ir.stage import BY_NAME
from jaxlens.reading import read_file

_LARGEST = 64 << 20  # bytes of a file
_SUFFIXES = (".py", ".pyi", ".pyw")


def sources(
    module: Module,
    *more: Span | None,
    libraries: bool = True,
    read: Callable[[str], str] | None = None,
) -> Mapping[str, Source]:
    """Reads the files of a module's spans through `linecache`, where IPython stores its cells.

    Args:
        module: Any module with spans.
        more: Further spans, such as the function's definition.
        libraries: Whether the text of installed packages is read too.
        read: Gives the text of a file or cell; `source_text` where None.

    Returns:
        Source by `Span.key`, in the order of first mention.
    """
    by_key: dict[str, Source] = {}
    read = read or source_text
    for span in chain(filter(None, more), *mentioned(module)):
        if span.key and span.key not in by_key:
            text = read(span.key) if libraries or not span.library else ""
            by_key[span.key] = Source(span.file, text, span.library)
    return by_key


def earliest_sources(driver: Driver) -> Mapping[str, Source]:
    """Returns those of the earliest stage that a driver has or can make."""
    names = (name for name in BY_NAME if name not in ("source", "passes"))
    first = next(name for name in names if driver.waits_for(name) is not None)
    return sources(driver.stage(first).module)


def source_text(key: str) -> str:
    """Returns the text of a Python file or a cell; "" if it cannot be read.

    The text of a program can name any file, and what is shown of it may be sent on: a file of
    another kind is read only where Python runs it as the script.
    """
    python = False
    try:
        python = all(name.endswith(_SUFFIXES) for name in (key, os.path.realpath(key)))
        if python or _is_script(key):
            return decode_source(read_file(key, _LARGEST))
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, SyntaxError, ValueError):
        return ""
    # The text of a cell or of a zipped module is only in the cache.
    return "".join(linecache.getlines(key)) if python or key in linecache.cache else ""


def _is_script(key: str) -> bool:
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    return script is not None and os.path.abspath(key) == os.path.abspath(script)
