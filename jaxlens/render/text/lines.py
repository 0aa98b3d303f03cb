"""Wraps prose to a width, and renders listings and the user's source lines with annotations."""

import re
import textwrap
from collections.abc import Iterator
from itertools import islice
from typing import Any

from jaxlens.render.control_chars import visible
from jaxlens.render.document import Line, Listing, SourceLine, SourcePane

_BAR = 8  # characters of a full bar
_CODE = 78  # notes beside code start here at the latest
_LIST = re.compile(r", [^,=]+(?:,|$)")  # items of a list, and no attribute such as metadata=
REST = ".text(full=True)"
"""What writes all that a text leaves out, unless its caller names another way."""


def line_text(line: Line, full: bool) -> str:
    """Returns a line as indented text; unless `full`, without folded pieces and with cut lists."""
    texts = (
        visible(p.text) if full or p.kind != "fold" else ", ..." if _LIST.match(p.text) else ""
        for p in line.pieces
    )
    return ("  " * line.indent + "".join(texts)).rstrip()


def listing_lines(block: Listing, full: bool, rest: str = REST) -> list[str]:
    """Returns the program's lines; the first of each run of one owner ends with the owner."""
    folded = f"  (folded; {rest} opens it)"
    shown = tuple(_in_order(block)) if full else block.lines
    texts = [line_text(line, full) + (folded if line.folds and not full else "") for line in shown]
    column = min(max(map(len, texts), default=0), _CODE)
    lines, owner = [], ""
    for line, text in zip(shown, texts, strict=True):
        new = line.line if line.line != owner else ""
        lines.append(f"{text:<{column}}  # {visible(new)}" if new else text)
        owner = line.line
    return lines


def _in_order(block: Listing) -> Iterator[Line]:
    """Yields all lines of a program, what one folds behind it."""
    more = iter(block.more)
    for line in block.lines:
        yield line
        yield from islice(more, line.folds)
    yield from more


def source_lines(block: SourcePane, full: bool) -> list[str]:
    """Returns the user's lines with line numbers, and a bar and a note on lines with a share."""
    digits = max((len(str(line.number)) for line in block.lines), default=1)
    column = min(max((len(line.text) for line in block.lines), default=0), _CODE)
    scale = f"  ({visible(block.scale)})" if block.scale else ""
    lines = [f"{visible(block.title)}{scale}"]
    for line in block.lines:
        lines.append(f"{line.number:>{digits + 2}} | {_noted(line, column)}")
        if full:
            gap = " " * (digits + 2)
            lines += [f"{gap} :     {line_text(under, True)}" for under in line.under]
    return lines


def _noted(line: SourceLine, column: int) -> str:
    code = visible(line.text)
    if line.share is None and not line.note:
        return code
    filled = round(min(max(line.share or 0.0, 0.0), 1.0) * _BAR)
    bar = "#" * (filled or (1 if line.share else 0))
    more = f" ({visible(line.more)})" if line.more else ""
    return f"{code:<{column}}  {bar:<{_BAR}}  {visible(line.note)}{more}"


_PLACE = re.compile(r"\bcell (?=\d)")
_UNBROKEN = "cell\ue000"  # a private use character instead of the space, so that it does not break


def wrap(text: str, width: int, **options: Any) -> list[str]:
    """Returns lines of at most `width` columns; "cell 3:4" is not broken.

    Args:
        text: One paragraph, after `visible`.
        width: Maximum columns of a line.
        **options: Options of `textwrap.wrap`.
    """
    unbroken = _PLACE.sub(_UNBROKEN, text)
    return [line.replace("\ue000", " ") for line in textwrap.wrap(unbroken, width, **options)]


def words(text: str) -> list[str]:
    """Returns the words that `wrap` does not break; "cell 3:4" is one word."""
    return [word.replace("\ue000", " ") for word in _PLACE.sub(_UNBROKEN, text).split()]
