"""Wraps prose and table cells to a width without breaking the name of a cell's line."""

import re
import textwrap
from typing import Any

_PLACE = re.compile(r"\bcell (?=\d)")
_HELD = "cell\ue000"  # a private use character instead of the space, so that it does not break


def wrap(text: str, width: int, **options: Any) -> list[str]:
    """Returns lines of at most `width` columns; "cell 3:4" is not broken.

    Args:
        text: One paragraph, after `visible`.
        width: Maximum columns of a line.
        **options: Options of `textwrap.wrap`.
    """
    held = _PLACE.sub(_HELD, text)
    return [line.replace("\ue000", " ") for line in textwrap.wrap(held, width, **options)]


def words(text: str) -> list[str]:
    """Returns the words that `wrap` does not break; "cell 3:4" is one word."""
    return [word.replace("\ue000", " ") for word in _PLACE.sub(_HELD, text).split()]
