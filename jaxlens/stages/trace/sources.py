"""Reads the source text of every file and notebook cell that a program's spans refer to."""

import linecache
from collections.abc import Mapping

from jaxlens.ir.columns import mentioned
from jaxlens.ir.facts import Source
from jaxlens.ir.graph import Module, Span


def sources(module: Module, *more: Span | None) -> Mapping[str, Source]:
    """Reads the files of a module's spans through `linecache`, where IPython stores its cells.

    Args:
        module: Any module with spans.
        more: Further spans, such as the function's definition.

    Returns:
        Source by `Span.key`, in the order of first mention.
    """
    found: dict[str, Source] = {}
    spans = [span for stack in mentioned(module) for span in stack]
    for span in (*(s for s in more if s is not None), *spans):
        if span.key and span.key not in found:
            found[span.key] = Source(span.file, _text(span.key), span.library)
    return found


def _text(key: str) -> str:
    if not key.startswith("<"):
        linecache.checkcache(key)  # a file may have been edited; a cell's text is only in the cache
    return "".join(linecache.getlines(key))
