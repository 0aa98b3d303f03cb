"""Lines of printed StableHLO written out for scripts.

Ops of a program differ mostly in the names of values, so a line is marked once for all lines
that have other names in the same places.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from jaxlens.ir.stablehlo.text import PrintedLine
from jaxlens.render.document import Line
from jaxlens.render.html.lazy_lines import Row
from jaxlens.render.html.marks import marked
from jaxlens.views.listings.stablehlo_words import pieces

_NAME = re.compile(r"(%[\w$.-]+)")
_QUOTED = re.compile(r'"[^"]*%[^"]*"')


def rows(lines: Iterable[PrintedLine], known: Mapping[str, str]) -> Iterator[Row]:
    """The lines, each with its op and the source line that owns it.

    Args:
        lines: As they were printed.
        known: Name of the source line of each op that one owns.
    """
    like: dict[str, tuple[str, ...]] = {}
    for line in lines:
        owner = known.get(line.node or line.inside, "")
        yield " " * line.indent + _written(line.text, like), line.node or 0, owner


def _written(text: str, like: dict[str, tuple[str, ...]]) -> str:
    """A line with its marks; `like` holds what stands between names in lines seen before."""
    parts = _NAME.split(text)
    names = parts[1::2]
    parts[1::2] = "%" * len(names)
    form = "".join(parts)
    between = like.get(form)
    if between:
        parts[::2] = between
        parts[1::2] = names
        return "".join(parts)
    found = marked(Line(pieces(text)))
    if _any_name_does(text) and _NAME.findall(found) == names:
        like[form] = tuple(_NAME.split(found)[::2])
    return found


def _any_name_does(text: str) -> bool:
    """Whether nothing that a name stands in is folded for its length, or shown as other signs."""
    braces = text.find("{")
    outside = braces < 0 or text.rfind("%") < braces
    return outside and text.isascii() and text.isprintable() and not _QUOTED.search(text)
