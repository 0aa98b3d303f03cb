"""Charts: labels are escaped, in text and HTML and in both themes."""

import re
import xml.etree.ElementTree as ET
from importlib.resources import files

from jaxlens.render import chart
from jaxlens.render.document import Document, Picture
from jaxlens.render.html.document_html import html
from jaxlens.render.text.document_text import text

NASTY = '"><script>alert(1)</script>&\u202e'


def a_document():
    marks = [
        chart.rect(10, 10, 50, 20, chart.hue(13), tip=NASTY, id=NASTY, line=NASTY),
        chart.path([(0, 0), (10.04, 20.5)], "c1"),
        chart.circle(5, 5, 2, "hot"),
        chart.words(10, 40, NASTY, "dim", "end"),
    ]
    drawn = chart.chart(100, 50, marks)
    picture = Picture("Bytes " + NASTY, "a chart " + NASTY, drawn, ("a | #####",), "optimized")
    return Document("compile", "f(x)", (picture,))


def test_names_are_text():
    drawn = a_document().blocks[0]
    assert isinstance(drawn, Picture)
    root = ET.fromstring(drawn.svg)
    kinds = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert kinds == {"svg", "style", "rect", "title", "path", "circle", "text"}
    markup = html(a_document())
    assert "<script>alert" not in markup
    assert "\u202e" not in markup


def test_text_says_the_same():
    written = text(a_document())
    assert "a | #####" in written
    assert "\u202e" not in written


def test_page_follows_the_theme():
    kept = files("jaxlens.render").joinpath("static", "chart/chart.css").read_text()
    assert chart.page_style() in kept


def test_picture_stands_without_scripts():
    markup = html(a_document())
    (image,) = re.findall(r"<img[^>]*>", markup)
    assert "data:image/svg+xml," in image
    assert "alt=" in image


def test_equal_charts_are_equal_text():
    assert html(a_document()) == html(a_document())


def test_ticks_are_round():
    assert chart.ticks(637e3) == [0, 200e3, 400e3, 600e3]
    assert chart.ticks(100.0) == [0, 20, 40, 60, 80, 100]
    assert chart.ticks(0.04) == [0, 0.01, 0.02, 0.03, 0.04]
    assert chart.ticks(0) == [0]
    for top in (1, 3, 7.5, 999, 1000, 12345, 2.3e-7):
        steps = chart.ticks(top)
        assert 3 <= len(steps) <= 6
        assert 0.6 * top < steps[-1] <= top
