"""Draws charts as SVG from a few kinds of marks; every text is escaped, so none acts as markup.

A page shows a chart in one of two ways: without scripts, as an `<img>` with a light background of
its own; with scripts, as inline SVG that follows the page's theme (`chart/chart.js` removes the
style element; `chart/chart.css` is the output of `page_style`, which a test compares). So marks
have classes and no colours:

    hue0 ..    fills of areas and bars, one hue per source line; never the only distinction
    quiet      fill of secondary areas; axis, grid, hot: axes, grid lines, highlighted lines
    text, dim  primary and secondary text
"""

import math
from collections.abc import Callable, Iterable
from functools import cache
from html import escape
from typing import Literal

from jaxlens.render.graph.palette import HUES, light, themed
from jaxlens.render.graph.text_width import FONT, clean, columns

Anchor = Literal["start", "middle", "end"]


def chart(width: float, height: float, marks: Iterable[str]) -> str:
    """Returns the SVG document of a chart.

    Args:
        width: Width of the drawing in CSS pixels; about 800 fills a notebook's output.
        height: Height of the drawing in CSS pixels.
        marks: Results of `rect`, `line`, `path`, `circle` and `words`, in order of painting.
    """
    w, h = _n(width), _n(height)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="jaxlens-chart" width="{w}" height="{h}" '
        f'viewBox="0 0 {w} {h}"><style>{_style(light)}</style>'
        f'<rect class="card" width="{w}" height="{h}" rx="8"/>{"".join(marks)}</svg>'
    )


def rect(
    x: float,
    y: float,
    w: float,
    h: float,
    kind: str,
    *,
    tip: str = "",
    id: str = "",
    line: str = "",
    digits: int = 1,
) -> str:
    """Returns a rectangle; all lengths are in CSS pixels.

    Args:
        x: Left edge.
        y: Top edge.
        w: Width.
        h: Height.
        kind: CSS class; see the module's docstring.
        tip: Tooltip.
        id: Id of the node that it represents.
        line: The source line that owns it ("cell 3:4").
        digits: Digits after the point of `x` and `w`; more where a page zooms far.
    """
    wide = f'x="{_n(x, digits)}" width="{_n(max(w, 0), digits)}"'
    place = f'{wide} y="{_n(y)}" height="{_n(max(h, 0))}"'
    return _mark("rect", place, kind, tip, id, line)


def path(points: Iterable[tuple[float, float]], kind: str) -> str:
    """Returns a polyline through the points."""
    steps = "L".join(f"{_n(x)} {_n(y)}" for x, y in points)
    return _mark("path", f'd="M{steps}"', kind, "", "", "")


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "axis") -> str:
    """Returns a straight line."""
    return path(((x1, y1), (x2, y2)), kind)


def circle(
    x: float, y: float, r: float, kind: str, *, tip: str = "", id: str = "", line: str = ""
) -> str:
    """Returns a circle with its centre at `x`, `y`."""
    return _mark("circle", f'cx="{_n(x)}" cy="{_n(y)}" r="{_n(r)}"', kind, tip, id, line)


def words(x: float, y: float, text: str, kind: str = "text", anchor: Anchor = "start") -> str:
    """Returns one line of text; `y` is its baseline."""
    return (
        f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}">'
        f"{escape(clean(text))}</text>"
    )


def width(text: str) -> float:
    """Returns the width in pixels of a text as `words` draws it."""
    return 7.3 * columns(text)


def group(kind: str, marks: Iterable[str]) -> str:
    """Returns marks in a group of its own: `labels` of the whole plot, or `ticks` of its axis.

    A page that zooms the plot hides the labels and writes the `ticks` anew, by their places.
    """
    return f'<g class="{kind}">{"".join(marks)}</g>'


def ticks(top: float) -> list[float]:
    """Returns the round numbers of an axis from 0 to `top`: at most five steps of 1, 2 or 5."""
    if top <= 0:
        return [0.0]
    size = 10.0 ** math.floor(math.log10(top / 5))
    step = size * next(n for n in (1, 2, 5, 10) if n * size >= top / 5)
    return [n * step for n in range(int(top / step + 1e-9) + 1)]


def plot(
    x: float, y: float, w: float, h: float, top: float, marks: Iterable[str], axis: str = "bytes"
) -> str:
    """Returns a part of the chart that a page can zoom.

    Args:
        x: Left edge in CSS pixels, which its marks share with the rest of the chart.
        y: Top edge.
        w: Width.
        h: Height.
        top: What the axis ends with: bytes at the top edge, or seconds at the right edge.
        marks: Rectangles and lines; text in it would be stretched.
        axis: "bytes" from the bottom up; "seconds" from left to right, in which alone it zooms.
    """
    box = " ".join(map(_n, (x, y, w, h)))
    place = f'x="{_n(x)}" y="{_n(y)}" width="{_n(w)}" height="{_n(h)}"'
    return (
        f'<svg class="plot" {place} viewBox="{box}" preserveAspectRatio="none" '
        f'data-top="{top}" data-axis="{axis}">'
        f"{''.join(marks)}</svg>"
    )


def hue(index: int) -> str:
    """Returns the CSS class of a hue, by its index in `palette.HUES` (see `line_hues`)."""
    return f"hue{index % len(HUES)}"


def page_style() -> str:
    """Returns the CSS of a chart in a page; the colours follow the page's theme."""
    return _style(themed, ".jaxlens-chart ")


def _mark(tag: str, place: str, kind: str, tip: str, id: str, line: str) -> str:
    node = f' data-id="{escape(clean(id))}"' if id else ""
    owner = f' data-line="{escape(clean(line))}"' if line else ""
    title = f"<title>{escape(clean(tip))}</title>" if tip else ""
    return f'<{tag} class="{kind}" {place}{node}{owner}>{title}</{tag}>'


def _n(number: float, digits: int = 1) -> str:
    return f"{number:.{digits}f}".rstrip("0").rstrip(".")


@cache
def _style(color: Callable[[str], str], root: str = "") -> str:
    rules = {
        "text": f"font:12px {FONT};fill:{color('text')}",
        ".dim": f"font-size:11px;fill:{color('dim')}",
        ".card": f"fill:{color('card')}",
        ".axis": f"fill:none;stroke:{color('line')}",
        ".grid": f"fill:none;stroke:{color('line')};opacity:.3",
        ".hot": f"fill:none;stroke:{color('focus')};stroke-width:2;stroke-dasharray:5 3",
        ".quiet": f"fill:{color('panel')};stroke:{color('line')}",
    }
    for index in range(len(HUES)):
        rules[f".hue{index}"] = f"fill:{color(f'{index}-fill')};stroke:{color(str(index))}"
    return "".join(f"{root}{selector}{{{rule}}}" for selector, rule in rules.items())
