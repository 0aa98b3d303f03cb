"""Panes of the viewer in a real browser: which are shown, their width, search, keys and copies."""

import threading
from dataclasses import replace

import pytest

import jaxlens
from jaxlens.render.document import (
    Code,
    Diff,
    DiffGroup,
    DiffRow,
    Document,
    Fold,
    Line,
    Piece,
    Tab,
    Tabs,
)
from jaxlens.render.html.document_html import html
from tests.support.browsing import PAGE
from tests.support.paths import RECORDS
from tests.support.viewer_pages import a_document, choose, lit, row, shown


def test_the_panes_of_a_verb_are_remembered_until_they_are_reset(saved):
    one, same = html(a_document()), html(a_document(name="g(x)"))
    other = html(replace(a_document(), verb="compile"))
    page = saved(one)
    assert shown(page) == ["Your code", "Optimised HLO"]
    page.wait_for_selector(".splitter")
    first = page.locator(".splitter").first.get_attribute("aria-valuenow")
    page.locator(".bar [data-key=jaxpr]").click()
    page.locator(".bar [data-key=stablehlo]").click(modifiers=["Shift"])
    assert shown(page) == ["Your code", "jaxpr", "StableHLO"]
    bar = page.locator(".splitter").first
    start = bar.get_attribute("aria-valuenow")
    bar.press("ArrowRight")
    moved = bar.get_attribute("aria-valuenow")
    assert moved != start
    page = saved(same, page=page)
    assert shown(page) == ["Your code", "jaxpr", "StableHLO"]
    assert bar.get_attribute("aria-valuenow") == moved  # the room of panes, too
    page = saved(other, page=page)
    assert shown(page) == ["Your code", "Optimised HLO"]
    page = saved(one, page=page)
    page.get_by_role("button", name="Back to the panes of the start").click()
    assert shown(page) == ["Your code", "Optimised HLO"]
    assert bar.get_attribute("aria-valuenow") == first
    page = saved(same, page=page)
    assert shown(page) == ["Your code", "Optimised HLO"]


def test_a_diff_is_drawn_as_clusters_and_that_is_remembered(saved):
    def line(id, op):
        return Line((Piece(id, "name"), Piece(" = "), Piece(op, "op"), Piece("(x)")), id)

    rows = (
        DiffRow(None, line("fusion", "fusion"), ""),
        DiffRow(line("add.1", "add"), line("add.2", "add"), "fused"),
        DiffRow(line("tanh.1", "tanh"), line("tanh.2", "tanh"), "fused"),
    )
    diff = Diff("a", "b", (DiffGroup("fusion: loop", rows),))
    tabs = (Tab("Change", (diff,), key="change"), Tab("Other", (), key="other"))
    output = html(Document("hlo", "f", (Tabs(tabs),)))
    page = saved(output)
    shown = "e => [...e.querySelectorAll('.diff-rows b')].filter(e => e.checkVisibility()).length"
    assert page.locator(".program-diff").evaluate(shown) == 5
    page.get_by_label("as clusters").check()
    assert page.locator(".program-diff").evaluate(shown) == 2
    page = saved(output, page=page)
    assert page.get_by_label("as clusters").is_checked()
    page.get_by_role("button", name="Back to the panes of the start").click()
    assert page.locator(".program-diff").evaluate(shown) == 5


def test_what_a_page_stored_amiss_is_the_default(saved):
    page = saved(html(a_document()))
    for text in ("3", '"hlo"', "{", "null", '{"hlo source": 7}', '{"hlo source": {"open": ["x"]}}'):
        page.evaluate("text => localStorage.setItem('jaxlens-layout', text)", text)
        page = saved(html(a_document()), page=page)
        assert shown(page) == ["Your code", "Optimised HLO"]


def test_an_output_that_is_still_being_read_is_left_until_it_is_whole(chromium, served):
    output = html(a_document())
    text = PAGE.format("true", output * 2)
    cut = text.index("<summary", len(text) - len(output))
    whole = threading.Event()
    page = chromium.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    try:
        page.goto(served(text[:cut], whole, text[cut:]), wait_until="commit")
        page.wait_for_selector(".jaxlens >> nth=1", state="attached")
        page.wait_for_timeout(1000)  # the first output's program is there by now
        whole.set()
        page.wait_for_function("document.querySelectorAll('.jaxlens .bar').length === 2")
    finally:
        whole.set()
        page.close()
    assert errors == []


def test_a_page_without_storage_works(saved):
    page = saved(html(a_document()))
    page.add_init_script("Object.defineProperty(window, 'localStorage', { get() { throw 1 } })")
    page = saved(html(a_document()), page=page)
    page.locator(".bar [data-key=jaxpr]").click()
    assert shown(page) == ["Your code", "jaxpr"]


@pytest.mark.parametrize("width", [1200, 700, 400])
def test_narrow_outputs_have_panes_below_one_another_and_nothing_is_cut_off(saved, width):
    page = saved(html(a_document()), width=width)
    panes = page.locator("[data-pane] > div:visible")
    first, second = (panes.nth(n).bounding_box() for n in range(2))
    assert (second["y"] >= first["y"] + first["height"]) == (width < 640)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator(".bar [data-key=jaxpr]").click(modifiers=["Shift"])
    assert len(shown(page)) == (2 if width == 400 else 3)


def test_the_room_between_panes_moves_by_pointer_and_keys(saved):
    page = saved(html(a_document()))
    bar = page.locator(".splitter")
    was = int(bar.get_attribute("aria-valuenow"))
    width = page.locator("details[data-pane=source]").bounding_box()["width"]
    box = bar.bounding_box()
    page.mouse.move(box["x"] + 4, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 154, box["y"] + 50)
    page.mouse.up()
    wider = page.locator("details[data-pane=source]").bounding_box()["width"]
    assert wider == pytest.approx(width + 150, abs=6)
    bar.focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator("details[data-pane=source]").bounding_box()["width"] < wider
    assert was < int(bar.get_attribute("aria-valuenow")) < was + 20


def test_search_counts_and_goes_round(saved):
    page = saved(html(a_document()))
    choose(page, "jaxpr")
    head = page.locator("details[data-pane=jaxpr] .pane-head")
    box = head.get_by_role("searchbox")
    box.fill("OP3")
    expected = [f"jaxpr e{n}" for n in range(24) if n % 7 == 3]
    assert head.locator("output").inner_text() == f"1 of {len(expected)}"
    assert lit(page, "hit") == sorted(expected)
    box.press("Enter")
    assert lit(page, "row-cursor") == ["jaxpr e10"]
    box.press("Shift+Enter")
    box.press("Shift+Enter")
    assert head.locator("output").inner_text() == f"{len(expected)} of {len(expected)}"
    box.press("Escape")
    assert lit(page, "hit") == []


def test_keys_go_through_rows_pin_and_choose_panes(saved):
    page = saved(html(a_document()))
    choose(page, "jaxpr", "optimized")
    page.locator("details[data-pane=jaxpr] .pane-body").focus()
    for key in "jjk":
        page.keyboard.press(key)
    assert lit(page, "row-cursor") == ["jaxpr e0"]
    page.keyboard.press("ArrowDown")
    assert set(lit(page)) == {"jaxpr e1", "optimized fusion.0"}
    page.keyboard.press("Enter")
    assert lit(page, "pin") == ["jaxpr e1"]
    page.keyboard.press("]")
    page.keyboard.press("n")
    assert lit(page, "row-cursor")[-1] == "optimized fusion.0"
    page.keyboard.press("Escape")
    assert lit(page, "pin") == []
    page.keyboard.press("3")
    assert shown(page) == ["jaxpr", "StableHLO"]
    page.keyboard.press("/")
    page.keyboard.type("s7")
    assert page.locator("details[data-pane=stablehlo] .pane-head output").inner_text() == "1 of 1"
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.get_by_role("dialog", name="Keys").is_visible()
    page.keyboard.press("Escape")
    assert not page.get_by_role("dialog", name="Keys").is_visible()


def test_a_rewrite_of_a_card_is_copied_by_pointer_and_by_key(saved):
    said = [Code("text", f"return {name}", title=name) for name in ("where", "cond")]
    page = saved(html(Document("explain", "E", (*said, Fold("Until", ())))), ready=".remark button")
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.text = text }")
    first, second = page.locator(".remark button").all()
    first.click()
    assert page.evaluate("window.text") == "return where"
    assert first.inner_text() == "copied"
    second.press("Enter")
    assert page.evaluate("window.text") == "return cond"


def test_a_panes_text_is_copied(saved):
    page = saved(html(a_document()))
    choose(page, "jaxpr")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("navigator.clipboard.writeText = text => { window.text = text }")
    page.locator("details[data-pane=jaxpr] .pane-head button", has_text="copy").click()
    lines = page.evaluate("window.text").split("\n")
    assert len(lines) == 24
    assert lines[3] == "  e3 = op3"


def test_in_jupyterlab_keys_stay_in_the_output(open_notebook):
    cells = [
        "%load_ext jaxlens\nimport jax.numpy as jnp\n"
        "def f(x):\n    y = jnp.sin(x)\n    return y * y",
        "%%jaxpr\nf(jnp.ones(8))",
        "'last'",
    ]
    page = open_notebook("viewer.ipynb", cells)
    output = page.locator(".jaxlens").first
    output.locator(".bar [data-key=jaxpr]").wait_for()
    page.evaluate("document.querySelector('.jaxlens').jaxlens.ready")
    choose(page, "source", "jaxpr")
    equation = row(page, "jaxpr", "sin").or_(output.locator("[data-pane=jaxpr] [data-id]").first)
    equation.first.click()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    assert len(lit(page, "row-cursor")) == 1
    assert len(lit(page, "pin")) == 1
    active = page.locator(".jp-Cell.jp-mod-active")
    for key in "ddxjk":
        page.keyboard.press(key)
    assert page.locator(".jp-CodeCell").count() == 3
    assert "%%jaxpr" in active.inner_text()
    page.keyboard.press("Escape")
    assert lit(page, "pin") == []


def test_a_line_lights_what_it_became_on_each_target(saved):
    names = ("cpu", "gpu-h100", "tpu-v5e-2x2")
    records = [RECORDS / f"mlp_step.{name}.jaxlens" for name in names]
    view = jaxlens.side_by_side(*records, explore=True)
    page = saved(view.html(), width=1800)
    web, line = view.document.web, "programs.py:28"
    for number, one in enumerate(view.columns, 1):
        pane, atoms = f"optimized-{number}", set(web.lines[line])
        choose(page, "source", pane)
        page.locator(f".source-lines [data-line='{line}']").first.hover()
        of_target = web.atoms[f"optimized on {one.name}"]
        nodes = {f"{pane} {id}" for id, of in of_target.items() if atoms & set(of)}
        found = {text for text in lit(page) if text.startswith(pane)}
        assert found
        assert found <= nodes
        page.mouse.move(2, 2)


def test_a_long_instruction_of_a_diff_begins_beside_its_mark(saved):
    def line(id):
        name = Piece("dynamic-update-slice", "op")
        return Line((Piece(id, "name"), name, Piece("(get-tuple-element.14, " * 20)), id)

    rows = (DiffRow(line("a.1"), line("a.2"), "fused"),)
    tabs = (Tab("Change", (Diff("a", "b", (DiffGroup("fusion: loop", rows),)),), key="change"),)
    page = saved(html(Document("hlo", "f", (Tabs(tabs),))), width=700)
    mark, first = page.evaluate(
        "[...document.querySelector('.diff-rows > div').children].slice(0, 2)"
        ".map(e => e.getBoundingClientRect().top)"
    )
    assert abs(mark - first) < 2
