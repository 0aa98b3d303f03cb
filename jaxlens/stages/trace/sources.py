"""Reads the source text of every file and notebook cell that a program's spans refer to."""

import linecache
from collections.abc import Mapping
from importlib.util import decode_source
from itertools import chain

from jaxlens.ir.columns import mentioned
from jaxlens.ir.facts import Source
from jaxlens.ir.graph import Module, Span
from jaxlens.reading import read_file

_LARGEST = 64 << 20  # bytes of a file


def sources(module: Module, *more: Span | None, libraries: bool = True) -> Mapping[str, Source]:
    """Reads the files of a module's spans through `linecache`, where IPython stores its cells.

    Args:
        module: Any module with spans.
        more: Further spans, such as the function's definition.
        libraries: Whether the text of installed packages is read too.

    Returns:
        Source by `Span.key`, in the order of first mention.
    """
    by_key: dict[str, Source] = {}
    for span in chain(filter(None, more), *mentioned(module)):
        if span.key and span.key not in by_key:
            text = source_text(span.key) if libraries or not span.library else ""
            by_key[span.key] = Source(span.file, text, span.library)
    return by_key


def source_text(key: str) -> str:
    """Returns the text of a file or cell; "" if it cannot be read."""
    try:  # the text of a program can name any file
        return decode_source(read_file(key, _LARGEST))
    except FileNotFoundError:  # the text of a cell or of a zipped module is only in the cache
        return "".join(linecache.getlines(key))
    except (OSError, SyntaxError, ValueError):
        return ""
