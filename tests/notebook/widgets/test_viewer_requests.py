"""Requests of the viewer to a live kernel: data or an error message, never an exception."""

import json

import pytest

from jaxlens.errors import ReadError
from jaxlens.notebook.widgets.viewer_requests import answer, key_of
from jaxlens.render.document import Document, GraphPane, Line, Listing, Piece, Tab, Tabs
from jaxlens.render.graph.figure import Box, Figure, Panel
from jaxlens.render.html import document_html as html
from tests.support import documents
from tests.support import fixed_captures as fixed

LINES = tuple(Line((Piece(f"<{n}>"),), f"n{n}", 0, "cell 3:2") for n in range(10))
PANES = (
    Tab("a", (Listing("jaxpr", ()),), key="a"),
    Tab("b", (Listing("hlo", LINES[:4], more=LINES[4:]),), key="b"),
)
DOCUMENT = Document("explore", "f", (Tabs(PANES),))


def request(**question):
    return json.loads(json.dumps(answer(fixed.capture(), DOCUMENT, question)))


@pytest.mark.parametrize(("first", "end"), [(0, 2), (3, 6), (5, 9), (8, 100), (10, 12), (0, 0)])
def test_lines_are_counted_from_the_first(first, end):
    result = request(lines={"listing": 1, "from": first, "to": end})["ok"]
    assert result["ids"] == [3 if n > first else line.id for n, line in enumerate(LINES)][first:end]
    assert result["rows"] == "\n".join(line.pieces[0].text for line in LINES[first:end])


@pytest.mark.parametrize(
    ("question", "says"),
    [
        (
            {"lines": {"listing": 2, "from": 0, "to": 1}},
            "no listing 2 in an output of 2",
        ),
        ({"lines": {"listing": 1, "from": 4, "to": 1}}, "no lines 4 to 1 in a listing of 10"),
        ({"lines": {"listing": 1, "from": -4, "to": 1}}, "no lines -4 to 1 in a listing of 10"),
        ({"lines": {}}, "the question 'lines' does not fit"),
        ({"lines": 3}, "the question 'lines' does not fit"),
        ({"lines": {"listing": 1, "from": "x", "to": 1}}, "the question 'lines' does not fit"),
        ({"pass": 900}, "no pass 900"),
        ({"liens": 1}, "no question 'liens'; did you mean 'lines'?"),
        ({}, "no question ''"),
    ],
)
def test_a_wrong_question_is_answered_in_a_sentence(question, says):
    result = request(**question)
    assert list(result) == ["error"]
    assert says in result["error"]
    assert "\n" not in result["error"]


def test_what_opens_in_a_box_of_a_graph():
    top = Panel("main", "f", (Box("e0", "jit", inside="g"),), ())
    inner = Panel("g", "g", (Box("e1", "<tanh>"),), ())
    graph = GraphPane(Figure((top, inner)), "A drawing.")
    document = Document("jaxpr", "f", (graph,))
    question = {"panel": {"graph": 0, "name": "main"}}
    result = json.loads(json.dumps(answer(fixed.capture(), document, question)))["ok"]
    assert result["shut"] == [[0, "g"]]
    assert result["row"][4][0][:2] == ["e0", "jit"]
    for wrong in ({"graph": 0, "name": "h"}, {"graph": 1, "name": "g"}, {"name": "g"}):
        assert "error" in answer(fixed.capture(), document, {"panel": wrong})


def test_a_step_through_the_passes_has_its_rows():
    (step,) = request(**{"pass": 2})["ok"]["steps"]
    assert step["index"] == 2
    assert step["lines"]


def test_the_key_is_that_of_the_html():
    markup = html.html(documents.compile(fixed.capture()))
    assert f"data-key={key_of(markup)} " in markup
    with pytest.raises(ReadError):
        key_of("<p>data-key=x</p>")
