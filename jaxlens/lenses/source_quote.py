"""Looks up the Python text of a span, which reports print next to its line number."""

from collections.abc import Mapping

from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import Source
from jaxlens.ir.graph import Span
from jaxlens.lenses.subject import Subject

_MOST = 44


def quoter(subject: Subject) -> "Quoter":
    """Returns a `Quoter` of the program's sources; it returns "" where there are none."""
    try:
        return Quoter(subject.sources)
    except UnavailableError:
        return Quoter({})


def bracketed(span: Span | None, text: str) -> str:
    """Returns " (TEXT)" to follow a line's number in a sentence; it marks a library's line."""
    parts = ["a library's line"] if span is not None and span.library else []
    if text:
        parts.append(text)
    return f" ({': '.join(parts)})" if parts else ""


class Quoter:
    """Looks up source lines; splits the text of each file once."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self._sources = sources
        self._lines: dict[str, list[str]] = {}

    def __call__(self, span: Span | None, most: int = _MOST) -> str:
        """Returns the line where a span begins, stripped and cut to `most`; "" if unknown."""
        if span is None or span.key not in self._sources:
            return ""
        if span.key not in self._lines:
            self._lines[span.key] = self._sources[span.key].text.split("\n")
        lines = self._lines[span.key]
        text = lines[span.line - 1].strip() if 0 < span.line <= len(lines) else ""
        return text if len(text) <= most else f"{text[: most - 1]}…"
