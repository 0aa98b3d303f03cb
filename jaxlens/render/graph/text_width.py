"""Truncates and measures the text of a drawing, without font metrics.

A drawing must be the same on every machine, so nothing here depends on installed fonts: it uses
a monospaced font stack, whose characters are 0.6 of the font size wide (0.55 to 0.62 in
practice), and each text has a `textLength`, to which the browser fits it.
"""

import unicodedata
from functools import lru_cache
from itertools import accumulate, takewhile

from jaxlens.render.graph.figure import Box, Panel

FONT = 'ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Liberation Mono",monospace'
LABEL_SIZE = 13.0
DETAIL_SIZE = 11.0
EDGE_SIZE = 10.0
ADVANCE = 0.6  # width of a character over the font size

LABEL_COLUMNS = 28
DETAIL_COLUMNS = 42
EDGE_COLUMNS = 26
HINT_CHARACTERS = 400
_LABELLED = 120


@lru_cache(maxsize=4096)
def clean(text: str) -> str:
    """Returns the text with spaces for line breaks and U+FFFD for unprintable characters."""
    if text.isascii() and text.isprintable():
        return text
    spaced = (" " if char.isspace() else char for char in text)
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(char) in _UNSHOWN else char
        for char in spaced
    )


# Cc, Cf: control and direction characters, which could reorder the text; Cs: lone surrogates.
_UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Cn", "Co"})


@lru_cache(maxsize=4096)
def columns(text: str) -> int:
    """Returns the text's width in columns of a monospaced font; a wide character has two."""
    if text.isascii():
        return len(text)
    return sum(_advance(char) for char in text)


def _advance(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


@lru_cache(maxsize=4096)
def shorten(text: str, limit: int) -> str:
    """Returns the cleaned text in at most `limit` columns, with "…" for a removed middle."""
    if len(text) <= limit and text.isascii() and text.isprintable():
        return text
    text = clean(text[: 8 * limit] + text[-8 * limit :] if len(text) > 16 * limit else text)
    if columns(text) <= limit:
        return text
    tail = limit // 3
    return f"{_take(text, limit - 1 - tail)}…{_take(text[::-1], tail)[::-1]}"


def _take(text: str, limit: int) -> str:
    widths = accumulate(map(_advance, text))
    return text[: sum(1 for _ in takewhile(limit.__ge__, widths))]


def box_label(box: Box) -> str:
    """Returns the first line as it is drawn."""
    return shorten(box.label, LABEL_COLUMNS)


def box_detail(box: Box) -> str:
    """Returns the second line as it is drawn."""
    return shorten(box.detail, DETAIL_COLUMNS)


def box_hint(box: Box) -> str:
    """Returns the tooltip: the full text, of which the box may show a part."""
    text = box.hint or (f"{box.label} {box.detail}" if box.detail else box.label)
    return clean(text[:HINT_CHARACTERS]) + ("…" if len(text) > HINT_CHARACTERS else "")


def box_size(box: Box) -> tuple[float, float]:
    """Returns the width and height in pixels of a closed box."""
    label, detail = columns(box_label(box)), columns(box_detail(box))
    if is_small(box):
        width = max(label, detail) * DETAIL_SIZE * ADVANCE + 14
        return max(24.0, _even(width)), 34.0 if detail else 20.0
    marker = 16 if box.inside else 0
    width = max(label * LABEL_SIZE, detail * DETAIL_SIZE) * ADVANCE + 26 + marker
    return max(44.0, _even(width)), 42.0 if detail else 28.0


def is_small(box: Box) -> bool:
    """Returns whether the box is drawn in small type, as minor boxes are."""
    return box.kind in ("quiet", "constant") and not box.inside


def _even(width: float) -> float:
    return float(2 * round(width / 2 + 0.49))


def edge_labels(panel: Panel) -> tuple[str, ...]:
    """Returns the label of each edge; "" for none.

    A type that another edge of the same tail already shows is left out. A panel with many edges
    has no labels: they would be ambiguous, and Graphviz would take seconds to place them.
    """
    if len(panel.edges) > _LABELLED:
        return ("",) * len(panel.edges)
    first = {(edge.tail, edge.label): n for n, edge in reversed(list(enumerate(panel.edges)))}
    return tuple(
        shorten(edge.label, EDGE_COLUMNS) if first[edge.tail, edge.label] == n else ""
        for n, edge in enumerate(panel.edges)
    )
