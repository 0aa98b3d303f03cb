"""Links of the viewer on saved HTML in a real browser, compared with those computed in Python."""

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.render.document import (
    Document,
    Findings,
    Line,
    Listing,
    Piece,
    Tab,
    Tabs,
)
from jaxlens.render.html.document_html import html
from jaxlens.render.link_data import Web
from jaxlens.report import Finding
from tests.support import programs
from tests.support.browsing import CONTRAST
from tests.support.viewer_pages import a_document, choose, lit, of_line, program, row

MARKED = "[...(CSS.highlights.get('jl-expression') ?? [])].map(String)"
POINT = """(row, part) => {
  const text = row.querySelector("i").nextSibling;
  const range = new Range();
  const at = text.data.indexOf(part);
  range.setStart(text, at);
  range.setEnd(text, at + part.length);
  const { left, top, height } = range.getBoundingClientRect();
  return [left + 2, top + height / 2];
}"""
HOSTILE = "</script><img src=x onerror=document.title='run'>"


def linked(web, atoms, stages):
    """What must be lit: everything of the stages that shares an atom."""
    found = {f"{s} {i}" for s in stages for i, own in web.atoms[s].items() if {*own} & {*atoms}}
    return found | {f"source {line}" for line, own in web.lines.items() if {*own} & {*atoms}}


@pytest.mark.parametrize("id", ["fusion.0", "fusion.3", "fusion.11"])
def test_hover_lights_what_shares_an_atom_in_every_pane_shown(saved, id):
    document = a_document()
    page = saved(html(document))
    choose(page, "source", "jaxpr", "optimized")
    row(page, "optimized", id).hover()
    expected = linked(document.web, document.web.atoms["optimized"][id], ["jaxpr", "optimized"])
    assert set(lit(page)) == expected
    assert lit(page, "pointed") == [f"optimized {id}"]
    page.mouse.move(2, 2)
    assert lit(page) == lit(page, "pointed") == []


def test_a_source_line_lights_what_it_owns_and_weaker_what_its_calls_made(saved):
    document = a_document()
    page = saved(html(document))
    choose(page, "source", "stablehlo")
    page.locator(".source-lines [data-line='cell 3:3'] > summary").hover()
    owned, called = document.web.lines["cell 3:3"], document.web.calls["cell 3:3"]
    assert set(lit(page)) == {f"stablehlo s{n}" for n in owned}
    assert set(lit(page, "call")) == {f"stablehlo s{n}" for n in called}
    assert lit(page, "pointed") == ["source cell 3:3"]
    page.locator(".source-lines .rows > *", has_text="line_5").hover()
    assert (set(lit(page)), set(lit(page, "call"))) == (
        set(),
        {"stablehlo s1", "stablehlo s5", "stablehlo s9"},
    )
    page.locator(".source-lines .rows > *", has_text="line_6").hover()
    assert lit(page) == []
    assert "cell 3:6 maps to nothing" in page.locator(".node-details").inner_text()


def test_click_pins_hover_looks_elsewhere_and_escape_lets_go(saved):
    document = a_document()
    page = saved(html(document))
    choose(page, "jaxpr", "optimized")
    row(page, "jaxpr", "e4").click()
    page.mouse.move(2, 2)
    pinned = lit(page)
    assert set(pinned) == {"jaxpr e4", "optimized fusion.2"}
    assert lit(page, "pin") == ["jaxpr e4"]
    row(page, "jaxpr", "e9").hover()
    assert "jaxpr e9" in lit(page)
    assert lit(page, "pin") == ["jaxpr e4"]
    page.mouse.move(2, 2)
    assert lit(page) == pinned
    page.keyboard.press("Escape")
    assert lit(page) == lit(page, "pin") == []
    row(page, "jaxpr", "e4").click()
    row(page, "jaxpr", "e4").click()
    assert lit(page, "pin") == []


def test_the_strip_tells_what_is_pinned_and_leads_to_each_stage(saved):
    page = saved(html(a_document()))
    choose(page, "source", "jaxpr")
    row(page, "jaxpr", "e1").click()
    strip = page.locator(".node-details")
    said = strip.inner_text()
    for words in (
        "e1 op1 in jaxpr: fused into fusion.0",
        "transpose of jvp",
        "StableHLO 1",
        "Optimised HLO 1",
        "cell 3:3 in f",
    ):
        assert words in said
    strip.locator("summary").click()
    assert "lib.py:9 in g" in strip.inner_text()
    strip.get_by_role("button", name="Optimised HLO 1").or_(
        strip.locator("button", has_text="Optimised HLO 1")
    ).first.click()
    assert row(page, "optimized", "fusion.0").is_visible()
    assert "optimized fusion.0" in lit(page)
    assert (
        "pinned, e1 op1: 1 instruction in Optimised HLO"
        in page.locator(".screen-reader").inner_text()
    )


def test_tables_findings_and_kernels_are_linked_too(saved):
    page = saved(html(a_document()))
    choose(page, "kernels", "said", "jaxpr")
    row(page, "jaxpr", "e3").hover()
    marked = page.evaluate(
        "[...document.querySelectorAll('.lit')].map(e => e.localName).sort().join()"
    )
    assert marked == "div,li,summary,td"
    page.locator(".findings li").hover()
    assert set(lit(page, "pointed")) == {"said e2 e3", "jaxpr e2", "jaxpr e3"}


@pytest.mark.parametrize("width", [1200, 420])
def test_the_page_stays_where_it_is_under_the_pointer(saved, width):
    page = saved(html(a_document()), width=width)
    choose(page, "source", "jaxpr", *(["optimized"] if width == 1200 else []))
    boxes = "[...document.querySelectorAll('.jaxlens *')].filter("
    boxes += "e => !e.closest('.node-details,.screen-reader')).map(e => {"
    boxes += " const r = e.getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; })"
    page.wait_for_timeout(300)  # opened panes are fitted in the next frames
    before = page.evaluate(boxes)
    strip = page.locator(".node-details").bounding_box()
    row(page, "jaxpr", "e1").hover()
    assert lit(page)
    assert page.evaluate(boxes) == before
    assert page.locator(".node-details").bounding_box() == strip


def test_hostile_names_light_up_and_never_run(saved):
    lines = (Line((Piece(HOSTILE, "op"), Piece(" = 1")), HOSTILE, 0, HOSTILE),)
    web = Web(
        {"jaxpr": {HOSTILE: (0,)}, "optimized": {HOSTILE: (0,)}},
        {HOSTILE: (0,)},
        fates={HOSTILE: HOSTILE},
        stacks=((HOSTILE,),),
        stack={HOSTILE: 0},
        made={HOSTILE: (HOSTILE,)},
    )
    tabs = Tabs(
        (
            Tab(HOSTILE, (Listing("jaxpr", lines, more=lines * 300),), key="jaxpr"),
            Tab("b", (Listing("optimized", lines * 3),), key="optimized", help=HOSTILE),
        ),
        open=("jaxpr", "optimized"),
    )
    page = saved(html(Document("hlo", HOSTILE, (tabs,), web)))
    page.wait_for_selector(".long-list [data-n]")
    page.locator("details[data-pane=optimized] .listing [data-id]").first.click()
    assert lit(page)
    page.locator(".long-list [data-n]").nth(3).click()
    page.locator("details[data-pane=jaxpr] .pane-head").get_by_role("searchbox").fill("onerror")
    assert HOSTILE in page.locator(".node-details").inner_text()
    page.locator(".node-details summary").click()
    page.wait_for_timeout(100)
    assert page.title() == ""
    assert page.locator(".jaxlens img").count() == 0


@pytest.mark.parametrize("light", [True, False])
def test_what_is_lit_keeps_its_contrast_in_both_themes(saved, light):
    page = saved(html(a_document()), light=light)
    choose(page, "source", "jaxpr", "optimized")
    row(page, "optimized", "fusion.0").click()
    page.locator("details[data-pane=jaxpr] .pane-head").get_by_role("searchbox").fill("op")
    page.locator(".source-lines .rows > *", has_text="line_3").hover()
    assert len(lit(page)) > 3
    assert len(lit(page, "hit")) > 3
    assert page.evaluate(CONTRAST) == []


def test_an_output_without_links_and_one_that_is_a_single_listing_work(saved):
    listing = Listing("hlo", program("hlo", "x", 30, of_line))
    page = saved(html(Document("hlo", "f", (Findings((Finding("A."),)), listing))))
    page.locator(".pane-head").get_by_role("searchbox").fill("op3")
    assert page.locator(".pane-head output").inner_text().endswith("of 4")
    assert page.locator(".bar [data-key]:visible").count() == 0


def cell(h, x, w, v):
    """One line with several products, and a name that is not ASCII before them."""
    é = jnp.tanh(x @ w + h @ v)
    return é * 2


ARGUMENTS = (jnp.ones((2, 3)), jnp.ones((2, 3)), jnp.ones((3, 3)), jnp.ones((3, 3)))


@pytest.fixture
def cells(saved):
    opened = saved(jaxlens.jaxpr(cell, *ARGUMENTS).html())
    opened.wait_for_selector("[data-expressions]")
    for key in ("source", "jaxpr"):
        tab = opened.locator(f".bar [data-key={key}]").first
        if tab.get_attribute("aria-pressed") != "true":
            tab.click()
    return opened


def point(page, part):
    summary = page.locator(".source-lines summary", has_text="x @ w").first
    page.mouse.move(*summary.evaluate(POINT, part))
    page.wait_for_timeout(150)
    rows = page.locator(".listing .lit").all_text_contents()
    return [row.partition("= ")[2].partition("[")[0].split(" ")[0] for row in rows]


def test_each_expression_lights_what_it_alone_became_which_marks_it(cells):
    assert point(cells, "x @ w") == ["dot_general"]
    assert cells.evaluate(MARKED) == ["x @ w"]
    assert point(cells, "h @ v") == ["dot_general"]
    assert cells.evaluate(MARKED) == ["h @ v"]
    assert point(cells, "+ h @") == ["add"]
    assert cells.evaluate(MARKED) == ["x @ w + h @ v"]
    assert point(cells, "jnp.tanh") == ["tanh"]
    assert point(cells, "= jnp") == ["dot_general", "dot_general", "add", "tanh"]
    for opcode, code in (("tanh", "jnp.tanh(x @ w + h @ v)"), ("mul", "é * 2")):
        cells.locator(".listing [data-id]", has_text=f"= {opcode}").first.hover()
        cells.wait_for_timeout(150)
        assert cells.evaluate(MARKED) == [code]


def test_parts_of_a_line_make_up_the_line():
    web = jaxlens.hlo(jax.jit(cell), *ARGUMENTS).document.web
    assert len(web.owned) > 1
    for line, parts in web.owned.items():
        assert set(web.lines[line]) == {atom for own in parts.values() for atom in own}


@pytest.mark.backend
def test_the_diff_of_fusion_is_linked_with_the_users_lines(saved):
    f, args = programs.SMALL["mlp_step"]()
    page = saved(jaxlens.hlo(f, *args).html())
    rows = page.locator("[data-pane=change] .diff-rows [data-id]")
    rows.filter(has_text="tanh.1 = ").first.hover()
    line = page.locator("[data-pane=source] .rows > * > :first-child.lit")
    line.wait_for()
    assert "jnp.tanh(" in line.inner_text()
    assert "tanh.1 tanh in the program before fusion." in page.locator(".node-details").inner_text()
    line.click(position={"x": 14, "y": 8})  # its number
    box = "document.querySelector('[data-pane=change] .diff-rows .lit')?.getBoundingClientRect()"
    page.wait_for_function(f"{box}?.top >= 0 && {box}.bottom <= innerHeight")
