"""Prose and cells of tables in lines of a width; the name of a place stays in one line."""

import re
import textwrap
from typing import Any

_PLACE = re.compile(r"\bcell (?=\d)")
_HELD = "cell\ue000"  # a letter of nobody's: `visible` shows it as something else


def wrap(text: str, width: int, **options: Any) -> list[str]:
    """Lines of at most `width` columns; "cell 3:4" is not broken.

    Args:
        text: One paragraph, control characters shown already.
        width: Columns.
        **options: As `textwrap.wrap` has them.
    """
    held = _PLACE.sub(_HELD, text)
    return [line.replace("\ue000", " ") for line in textwrap.wrap(held, width, **options)]


def words(text: str) -> list[str]:
    """What wrapping keeps whole."""
    return [word.replace("\ue000", " ") for word in _PLACE.sub(_HELD, text).split()]
