"""A view: one document, all its faces, built once and only when asked for."""

import dataclasses
import json
import re
import sys

import pytest

from jaxlens.errors import OptionError, PackageError, UnavailableError
from jaxlens.render.chart import chart, rect
from jaxlens.render.document import (
    Code,
    Document,
    Findings,
    GraphPane,
    Picture,
    Tab,
    Tabs,
)
from jaxlens.render.graph.figure import Box, Edge, Figure, Panel
from jaxlens.render.html.document_html import html
from jaxlens.render.text.document_text import text
from jaxlens.render.to_json import plain
from jaxlens.report import Finding
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


CHART = Picture("Memory", "Memory: 3 kB.", chart(10, 10, [rect(0, 0, 5, 5, "hue0", tip="a")]))


def pictured():
    tabs = (
        Tab("Graph", (GraphPane(FIGURE, "f: 1 equation."),), key="graph"),
        Tab("HLO graph", (GraphPane(FIGURE, "f as it runs."), CHART, CHART), key="hlo-graph"),
    )
    return view(Tabs(tabs))


def test_every_picture_has_a_name_and_comes_as_svg():
    shown = pictured()
    assert shown.pictures == ("Graph", "HLO graph", "Memory", "Memory 2")
    assert shown.svg() == shown.svg("Graph")
    assert "f as it runs." in shown.svg("HLO graph")
    assert shown.svg("Memory") == CHART.svg
    with pytest.raises(
        OptionError, match=r"no picture 'Memry' in this view; did you mean 'Memory'"
    ):
        shown.svg("Memry")
    with pytest.raises(UnavailableError, match=r"'Memory' is a chart, not a graph; \.svg\(\)"):
        shown.dot("Memory")


def test_every_picture_comes_as_png():
    pytest.importorskip("resvg_py")
    shown = pictured()
    for name in shown.pictures:
        data = shown.png(name)
        assert data.startswith(b"\x89PNG")
    width = int.from_bytes(shown.png("Memory")[16:20])
    assert width == 20


def test_without_the_package_png_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(PackageError, match=r"^\.png\(\) needs resvg-py, .*pip install resvg-py$"):
        pictured().png()


def test_a_view_is_saved_as_its_name_asks_for(tmp_path):
    shown = pictured()
    starts = {
        "html": "<!doctype html>",
        "md": "**f(x)**",
        "txt": "f(x)",
        "json": '{"type": "Document"',
        "svg": "<svg",
        "dot": "digraph",
    }
    for end, start in starts.items():
        path = shown.save(tmp_path / f"view.{end}")
        assert path.read_text().startswith(start)
        assert path.read_text().endswith("\n") or end in ("json", "svg")
    chart = shown.save(str(tmp_path / "chart.SVG"), picture="Memory")
    assert chart.read_text() == CHART.svg
    with pytest.raises(
        OptionError, match=r"^a view is saved as \.html, .*; got the name 'a\.pdf'$"
    ):
        shown.save(tmp_path / "a.pdf")
    assert not (tmp_path / "a.pdf").exists()


def test_a_page_of_its_own_has_a_title_and_everything_in_it(tmp_path):
    from tests.support.html_checks import Balance

    hostile = view()
    object.__setattr__(hostile, "document", Document("hlo", "<b>f</b>(x) with x f32[8]", ()))
    text = hostile.save(tmp_path / "page.html").read_text()
    assert "<title>&lt;b&gt;f&lt;/b&gt;(x)</title>" in text
    assert not re.search(r"(?:src|href)=[\"']?(?!data:)", text.partition("<script>")[0])
    Balance(text.replace("<meta charset=utf-8>", "").replace("<meta name=viewport", "<br"))


def test_markdown_has_versions_and_nothing_in_it_acts():
    sentence = Finding("`x` * y_ <img> @jit [a](b) of h_in is __init__, ~~x~~ &lt; $x$.")
    code = Code("text", "a\n````\nb")
    shown = view(Findings((sentence,)), code).md()
    lines = shown.splitlines()
    assert lines[0] == "**f(x)**"
    assert lines[2].startswith("jaxlens 0.")
    assert lines[4].startswith(
        r"- `x` \* y\_ \<img\> @<!-- -->jit [a\](b) of h_in is "
        r"\_\_init\_\_, \~\~x\~\~ \&lt; \$x\$."
    )
    assert lines[6:] == ["`````text", "a", "````", "b", "`````"]


def test_markdown_of_everything_opens_folds_and_cuts_long_programs():
    shown = View(None, sample.everything)
    assert "target triple" not in shown.md()
    assert "target triple" in shown.md(full=True)
    long = view(Code("text", "\n".join(map(str, range(500)))))
    assert "... 300 more lines; " in long.md()
    assert "\n499\n" in long.md(full=True)
