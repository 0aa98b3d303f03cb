"""How the words of a drawing are cut and measured, without asking any font.

A picture must come out the same on every machine, so nothing here depends on installed
fonts: the drawing uses a monospaced stack, whose characters are 0.6 of the font size wide
(0.55 to 0.62 in practice), and each text carries its length, to which the browser fits it.
"""

import unicodedata
from functools import lru_cache

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
    """The text with line breaks as spaces, and what XML or a terminal cannot hold as a mark."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_printable(c) for c in text)


def _printable(char: str) -> str:
    if char.isspace():
        return " "
    # Cc, Cf: control and direction marks, which could reorder what is read; Cs: half characters.
    return "\N{REPLACEMENT CHARACTER}" if unicodedata.category(char) in _UNSHOWN else char


_UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Cn", "Co"})


def columns(text: str) -> int:
    """Columns of a monospaced font that the text takes; a wide character takes two."""
    if text.isascii():
        return len(text)
    return sum(_advance(char) for char in text)


def _advance(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def shorten(text: str, limit: int) -> str:
    """The cleaned text in at most `limit` columns; "…" stands for a cut-out middle."""
    if len(text) <= limit and text.isascii() and text.isprintable():
        return text
    text = clean(text[: 8 * limit] + text[-8 * limit :] if len(text) > 16 * limit else text)
    if columns(text) <= limit:
        return text
    tail = limit // 3
    return f"{_take(text, limit - 1 - tail)}…{_take(text[::-1], tail)[::-1]}"


def _take(text: str, limit: int) -> str:
    taken, width = 0, 0
    for char in text:
        width += _advance(char)
        if width > limit:
            break
        taken += 1
    return text[:taken]


def box_label(box: Box) -> str:
    """The first line as it is drawn."""
    return shorten(box.label, LABEL_COLUMNS)


def box_detail(box: Box) -> str:
    """The second line as it is drawn."""
    return shorten(box.detail, DETAIL_COLUMNS)


def box_hint(box: Box) -> str:
    """What hovering says: the whole text where the box shows a part of it."""
    text = box.hint or (f"{box.label} {box.detail}" if box.detail else box.label)
    return clean(text[:HINT_CHARACTERS]) + ("…" if len(text) > HINT_CHARACTERS else "")


def box_size(box: Box) -> tuple[float, float]:
    """Width and height in pixels of the box while it is closed."""
    label, detail = columns(box_label(box)), columns(box_detail(box))
    if is_small(box):
        width = max(label, detail) * DETAIL_SIZE * ADVANCE + 14
        return max(24.0, _even(width)), 34.0 if detail else 20.0
    marker = 16 if box.inside else 0
    width = max(label * LABEL_SIZE, detail * DETAIL_SIZE) * ADVANCE + 26 + marker
    return max(44.0, _even(width)), 42.0 if detail else 28.0


def title_width(box: Box) -> float:
    """Room in pixels that the words of an open box take, which stand on one line."""
    detail = columns(box_detail(box)) * DETAIL_SIZE * ADVANCE
    label = columns(box_label(box)) * LABEL_SIZE * ADVANCE
    return 24 + label + (10 + detail if detail else 0) + 10


def is_small(box: Box) -> bool:
    """Whether the box is drawn in small type: what matters little."""
    return box.kind in ("quiet", "constant") and not box.inside


def _even(width: float) -> float:
    return float(2 * round(width / 2 + 0.49))


def edge_labels(panel: Panel) -> tuple[str, ...]:
    """What is written on each edge.

    A type that already stands by the same box is left out. So are all where there are too
    many edges to tell whose they are; Graphviz would take seconds to find room for them.
    """
    if len(panel.edges) > _LABELLED:
        return ("",) * len(panel.edges)
    seen: set[tuple[str, str]] = set()
    labels = []
    for edge in panel.edges:
        key = (edge.tail, edge.label)
        labels.append("" if key in seen else shorten(edge.label, EDGE_COLUMNS))
        seen.add(key)
    return tuple(labels)
