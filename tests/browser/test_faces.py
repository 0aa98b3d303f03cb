"""The HTML of documents in a real browser: on a bare page, and where JupyterLab trusts nothing."""

import nbformat
import pytest

from jaxlens.render.document import Document, GraphPane
from jaxlens.render.graph.figure import Box, Edge, Figure, Panel
from jaxlens.render.html.assets import styles
from jaxlens.render.html.document_html import body, html
from tests.support import sample_documents as sample
from tests.support.browsing import CONTRAST, PAGE
from tests.views.test_view import FIGURE

DRAWN = Document("jaxpr", "f(x)", (GraphPane(FIGURE, "f: 1 equation."),))


@pytest.fixture
def show(new_page):
    """`show(fragments) -> page`: one page of these outputs."""

    def show_(*fragments, light=True, width=1100):
        page = new_page(width)
        outputs = "".join(f"<div class=out>{fragment}</div>" for fragment in fragments)
        page.set_content(PAGE.format("true" if light else "false", outputs))
        return page

    return show_


def open_tabs(page):
    return page.evaluate(
        "[...document.querySelectorAll('.bar')].map(bar => [...bar.querySelectorAll("
        "'[aria-pressed=true]')].map(b => b.textContent).join())"
    )


def test_equal_outputs_keep_their_own_tabs_and_share_the_style(show):
    one = html(sample.everything())
    page = show(one, one)
    page.wait_for_selector(".bar")
    assert open_tabs(page) == ["Your lines,Kernels"] * 2
    page.locator(".bar button", has_text="jaxpr").nth(1).click()
    assert open_tabs(page) == ["Your lines,Kernels", "Your lines,jaxpr"]
    texts = page.locator("style").evaluate_all("all => all.map(e => e.textContent)")
    assert len(texts) == len(set(texts)) >= 2  # before scripts, after
    page.evaluate("document.querySelector('.out').remove()")
    color = "getComputedStyle(document.querySelector('.jaxlens .remark')).color"
    assert page.evaluate(color) == "rgb(87, 96, 106)"


def test_tabs_without_scripts_stand_in_a_row_and_work_by_keyboard(show):
    page = show(styles() + body(sample.everything()))
    tabs = page.locator(".pane-tabs > details > summary")
    assert tabs.nth(0).bounding_box()["y"] == tabs.nth(6).bounding_box()["y"]
    tabs.nth(1).focus()
    page.keyboard.press("Enter")
    assert page.locator(".pane-tabs > details[open] > summary").all_inner_texts() == ["jaxpr"]


def test_folds_open_by_their_box_and_tell_themselves(show):
    page = show(html(Document("hlo", "f", (sample.diff(),))))
    fold = page.locator("tt").first
    assert not fold.is_visible()
    page.locator("[data-id]:has(tt)").first.hover()
    assert "metadata=" in page.locator("[data-id]:has(tt)").first.get_attribute("title")
    page.get_by_label("metadata, layouts, long types").check()
    assert fold.is_visible()


@pytest.mark.parametrize("width", [360, 700, 1400])
def test_panes_scroll_and_the_page_does_not(show, width):
    blocks = (sample.source_pane(), sample.jaxpr_listing(), sample.diff(), sample.llvm())
    page = show(html(Document("hlo", sample.TAKEN, blocks)), html(sample.everything()), width=width)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("light", [True, False])
def test_text_has_contrast_in_both_themes(show, light):
    blocks = (sample.source_pane(), sample.jaxpr_listing(), sample.diff(), sample.findings())
    page = show(html(Document("hlo", sample.TAKEN, blocks)), light=light)
    assert page.evaluate("getComputedStyle(document.querySelector('.jaxlens')).colorScheme") == (
        "light" if light else "dark"
    )
    assert page.evaluate(CONTRAST) == []


def test_a_drawing_comes_to_life_in_every_output(show):
    page = show(html(DRAWN), html(DRAWN), html(sample.everything()))
    assert page.locator(".jaxlens-drawing[data-live]").count() == 2
    styles = page.evaluate("[...document.querySelectorAll('style')].map(s => s.textContent)")
    assert len(styles) == len(set(styles))


@pytest.mark.parametrize("width", [500, 900])
def test_a_drawing_behind_a_tab_fits_once_it_is_shown(show, width):
    boxes = tuple(Box(f"e{n}", f"a name of some length, number {n}") for n in range(3))
    edges = tuple(Edge("x", box.id, "f32[8]") for box in boxes)
    fan = Panel("main", "f", (Box("x", "x", kind="input"), *boxes), edges)
    wide = GraphPane(Figure((fan,)), "f: 3 equations.")
    findings = sample.findings()
    tabs = sample.Tabs((sample.Tab("Said", (findings,)), sample.Tab("Drawn", (wide,))))
    page = show(html(Document("jaxpr", "f(x)", (tabs,))), width=width)
    page.locator(".bar button", has_text="Drawn").click()
    page.wait_for_timeout(200)  # it is drawn in the next frame
    drawn, room, natural = page.locator(".jaxlens-figure").evaluate(
        "e => [e.getBoundingClientRect().width, e.parentElement.clientWidth,"
        " e.viewBox.baseVal.width]"
    )
    assert natural == pytest.approx(790, abs=10)
    assert drawn == pytest.approx(natural * min(1, max(0.91, room / natural)), abs=2)


def test_an_untrusted_notebook_shows_all_text_the_picture_and_colours(chromium, lab):
    documents = [sample.everything(), DRAWN]
    outputs = [nbformat.v4.new_output("display_data", {"text/html": html(d)}) for d in documents]
    cell = nbformat.v4.new_code_cell("x", outputs=outputs)
    book = nbformat.v4.new_notebook(cells=[cell])
    book.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(book, lab.root / "untrusted.ipynb")
    page = chromium.new_page(viewport={"width": 1280, "height": 1400})
    page.goto(f"{lab.url}/lab/tree/untrusted.ipynb")
    page.wait_for_selector(".jaxlens img", state="attached")
    expected = page.evaluate(
        "h => { const t = document.createElement('template'); t.innerHTML = h;"
        " t.content.querySelectorAll('script').forEach(s => s.remove());"
        " return t.content.textContent; }",
        body(documents[0]),
    )
    seen = page.locator(".jaxlens").nth(0)
    assert seen.evaluate("e => e.textContent") == expected
    assert page.evaluate("document.querySelectorAll('[data-jl], .jaxlens script').length") == 0
    assert "linear-gradient" in seen.locator(".source-lines summary i[style]").first.get_attribute(
        "style"
    )
    starts = seen.locator(".source-lines > pre > * > :first-child > i:first-child")
    places = starts.evaluate_all("all => all.map(e => e.getBoundingClientRect().left)")
    assert len(places) > 3
    assert places[0] > 0
    assert max(places) - min(places) < 1  # lines that open begin where the others do
    assert seen.locator("details [style*=border-left]").count() > 3
    assert seen.locator("tt").first.evaluate("e => getComputedStyle(e).display") == "none"
    assert page.locator(".jaxlens img").evaluate("e => e.complete && e.naturalWidth > 0")
    page.close()
