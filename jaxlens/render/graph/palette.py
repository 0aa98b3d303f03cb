"""Colours shared by all renderers: families of boxes and hues of source lines.

Based on the eight colours of Okabe and Ito (https://jfly.uni-koeln.de/color/), which remain
distinguishable under common colour blindness. A colour is never the only distinction: families
differ in outline too, and a line's hue is shown with its number. Text on any tint here has a
contrast of at least 4.5 in both themes (tested).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from jaxlens.render.graph.figure import BoxKind


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of a page.

    Attributes:
        card: Background of a drawing.
        panel: Background of an open box.
        text: Text on any tint.
        dim: Second lines, edge labels.
        line: Edges and quiet borders.
        focus: Outline of the box with keyboard focus.
    """

    card: str
    panel: str
    text: str
    dim: str
    line: str
    focus: str


@dataclass(frozen=True, slots=True)
class Tint:
    """One colour in both themes: a strong form for borders and bars, a soft one under text."""

    light: str
    light_fill: str
    dark: str
    dark_fill: str


LIGHT = Theme("#ffffff", "#f6f8fa", "#1b1f24", "#555d66", "#7d858e", "#0550ae")
DARK = Theme("#14171b", "#1d2127", "#eceff3", "#b6bec7", "#7f8994", "#79b8ff")


def _mix(color: str, other: str, share: float) -> str:
    """Returns the mix of `share` of the first colour with the second, both "#rrggbb"."""
    pairs = zip(_channels(color), _channels(other), strict=True)
    return "#" + "".join(f"{round(a * share + b * (1 - share)):02x}" for a, b in pairs)


def _channels(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _tint(color: str, fill: float = 0.16) -> Tint:
    return Tint(
        light=_mix(color, "#000000", 0.86),
        light_fill=_mix(color, LIGHT.card, fill),
        dark=_mix(color, "#ffffff", 0.88),
        dark_fill=_mix(color, DARK.card, fill * 0.6 + 0.06),
    )


_ORANGE, _SKY, _GREEN, _YELLOW = "#e69f00", "#56b4e9", "#009e73", "#f0e442"
_BLUE, _VERMILION, _PURPLE, _GREY = "#0072b2", "#d55e00", "#cc79a7", "#808890"

FAMILIES: Mapping[BoxKind, Tint] = {
    "input": _tint(_BLUE, 0.12),
    "output": _tint(_BLUE, 0.22),
    "constant": _tint(_GREY, 0.10),
    "quiet": _tint(_GREY, 0.0),
    "elementwise": _tint(_SKY, 0.20),
    "matmul": _tint(_VERMILION, 0.18),
    "reduce": _tint(_GREEN, 0.18),
    "move": _tint(_YELLOW, 0.26),
    "control": _tint(_PURPLE, 0.24),
    "call": _tint(_GREY, 0.16),
    "random": _tint(_ORANGE, 0.22),
    "collective": _tint("#4b3f9e", 0.18),
    "other": _tint(_GREY, 0.06),
}

# Hues of source lines, ordered so that neighbours differ most.
HUES: tuple[Tint, ...] = tuple(
    _tint(color, 0.22)
    for color in (
        _BLUE,
        _ORANGE,
        _GREEN,
        _PURPLE,
        _YELLOW,
        _VERMILION,
        _SKY,
        "#6a51a3",
        "#8c6d31",
        "#4d9221",
    )
)

_TINTS = {str(name): tint for name, tint in (*FAMILIES.items(), *enumerate(HUES))}


def light(name: str) -> str:
    """Returns a colour of light pages: of the theme ("line"), of a family or of a hue.

    A family has the name of its kind, a hue that of its index; "-fill" gives the soft form:
    "matmul", "matmul-fill", "3", "3-fill".
    """
    return _color(name, LIGHT, "light")


def themed(name: str) -> str:
    """Returns the same colour as CSS that selects its light or dark form by the page's theme."""
    return f"light-dark({light(name)},{_color(name, DARK, 'dark')})"


def _color(name: str, theme: Theme, form: str) -> str:
    key, _, fill = name.partition("-")
    if key not in _TINTS:
        return str(getattr(theme, name))
    return str(getattr(_TINTS[key], f"{form}_fill" if fill else form))


def line_hues(lines: Iterable[str]) -> Mapping[str, int]:
    """Returns an index into `HUES` for each owner ("cell 3:4"), in order of first appearance.

    Indices repeat if there are more lines than hues; "" (no owner) has none.
    """
    first = dict.fromkeys(line for line in lines if line)
    return {line: index % len(HUES) for index, line in enumerate(first)}


@cache
def bar_color(hue: int) -> str:
    """Returns the hue as one colour with a contrast of 3:1 to white and to dark pages.

    By WCAG 2's definition of contrast, luminances between 0.12 and 0.3 satisfy both.
    """
    color = HUES[hue].light
    while luminance(color) > 0.3:
        color = _mix(color, "#000000", 0.94)
    while luminance(color) < 0.12:
        color = _mix(color, "#ffffff", 0.94)
    return color


def luminance(color: str) -> float:
    """Returns the relative luminance of "#rrggbb", as WCAG 2 defines it."""
    shares = (channel / 255 for channel in _channels(color))
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
