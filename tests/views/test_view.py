"""A view: one document, all its faces, built once and only when asked for."""

import dataclasses
import json

import pytest

from jaxlens.errors import UnavailableError
from jaxlens.render.document import Document, GraphPane
from jaxlens.render.graph.figure import Box, Edge, Figure, Panel
from jaxlens.render.html.document_html import html
from jaxlens.render.text.document_text import text
from jaxlens.render.to_json import plain
from jaxlens.views.view import View
from tests.support import sample_documents as sample

FIGURE = Figure(
    (
        Panel(
            "main",
            "f",
            (Box("x", "x", kind="input"), Box("e0", "tanh")),
            (Edge("x", "e0", "f32[8]"),),
        ),
    )
)


def view(*blocks):
    return View(None, lambda: Document("hlo", "f(x)", blocks))


def drawn():
    return view(GraphPane(FIGURE, "f: 1 equation."))


def test_text_is_what_prints():
    shown = View(None, sample.everything)
    assert str(shown) == repr(shown) == shown.text() == text(sample.everything())
    assert "120.9" in shown.text(times=True)
    assert "target triple" in shown.text(full=True)


def test_a_notebook_gets_text_and_html():
    shown = View(None, sample.everything)
    bundle = shown._repr_mimebundle_()
    assert bundle == {"text/plain": shown.text(), "text/html": html(sample.everything())}
    assert list(shown._repr_mimebundle_(include=["text/plain"])) == ["text/plain"]
    assert list(shown._repr_mimebundle_(exclude=["text/plain"])) == ["text/html"]


def test_the_document_is_built_once_and_late():
    built = []

    def build():
        built.append(1)
        return sample.everything()

    shown = View(None, build)
    assert not built
    assert shown.html()
    assert shown.text()
    assert shown.json()
    assert built == [1]


def test_a_view_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        view().capture = 1


def test_an_error_of_ours_shows_as_one_line():
    def build():
        raise UnavailableError("no LLVM IR on tpu; --asm shows what there is")

    assert View(None, build)._repr_mimebundle_() == {
        "text/plain": "UnavailableError: no LLVM IR on tpu; --asm shows what there is"
    }


def test_a_bug_of_ours_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        View(None, lambda: 1 / 0)._repr_mimebundle_()


def test_data_names_types_and_goes_through_json():
    data = View(None, sample.everything).json()
    assert data["type"] == "Document"
    assert data["blocks"][0]["tabs"][0]["blocks"][0]["type"] == "SourcePane"
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert json.dumps(data) == json.dumps(plain(sample.everything()))


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (float("inf"), "inf"),
        (float("nan"), "nan"),
        ((1, "a", None, True, 2.5), [1, "a", None, True, 2.5]),
        ({"k": (1,)}, {"k": [1]}),
        (Edge("a", "b"), {"type": "Edge", "tail": "a", "head": "b", "label": ""}),
        (1j, "1j"),
    ],
)
def test_plain_data(value, data):
    assert plain(value) == data


def test_plain_data_keeps_order_and_depth():
    assert list(plain(Edge("a", "b"))) == ["type", "tail", "head", "label"]
    nested = ()
    for _ in range(5000):
        nested = (nested,)
    depth, data = 0, plain(nested)
    while data:
        depth, data = depth + 1, data[0]
    assert depth == 5000


def test_a_view_without_a_drawing_says_where_there_is_one():
    for face in (view().svg, view().dot):
        with pytest.raises(
            UnavailableError, match=r"this hlo view holds no drawing; jaxlens\.jaxpr"
        ):
            face()


def test_a_drawing_comes_as_svg_and_dot():
    assert drawn().svg().startswith("<svg")
    assert "tanh" in drawn().svg()
    assert "tanh" in drawn().dot()


def test_a_drawing_in_html_is_a_picture_where_nothing_runs():
    from tests.support.html_checks import Balance, Untrusted

    attrs = Balance(Untrusted(drawn().html()).markup).attrs
    assert any(a[:2] == ("img", "src") and a[2].startswith("data:image/svg+xml") for a in attrs)
    assert ("img", "alt", "f: 1 equation.") in attrs
