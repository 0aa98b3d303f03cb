"""What the viewer shows is whole and within reach: code, notes and edges, names and the focus."""

from dataclasses import replace

import pytest

import jaxlens
from jaxlens.render.document import (
    Document,
    Listing,
    Piece,
    SourceLine,
    SourcePane,
    Tab,
    TableBlock,
    Tabs,
)
from jaxlens.render.html.assets import styles
from jaxlens.render.html.document_html import body, html
from jaxlens.report import Cell, Table
from tests.support.paths import RECORDS
from tests.support.viewer_pages import a_document, choose, lit, row

CODE = "    hidden = jnp.tanh(x @ weights['first layer'] + bias['first layer'])  # ünïcode, then y"
# Every character of the user's lines: inside its pane, and not where the note of its line is.
HIDDEN = """() => {
  const hidden = [];
  for (const row of document.querySelectorAll(".source-lines .rows > * > :first-child")) {
    const pane = row.closest(".pane-body").getBoundingClientRect();
    const note = row.querySelector("span")?.getBoundingClientRect();
    const at = (node, n) => {
      const range = document.createRange();
      range.setStart(node, n);
      range.setEnd(node, n + 1);
      return range.getBoundingClientRect();
    };
    for (const node of row.childNodes)
      for (let n = 0; node instanceof Text && n < node.data.length; n++) {
        if (!node.data[n].trim()) continue;
        const box = at(node, n);
        const under = note && box.right > note.left + 0.5 && box.bottom > note.top + 1
          && box.top < note.bottom - 1;
        if (!box.width || box.left < pane.left || box.right > pane.right || under)
          hidden.push(node.data[n]);
      }
  }
  return hidden.join("");
}"""
UNNAMED = """() => [...document.querySelectorAll(".jaxlens :is(button, input, [tabindex], [role])")]
  .filter((e) => e.checkVisibility() && !(e.ariaLabel || e.title || e.textContent.trim()))
  .map((e) => e.outerHTML.slice(0, 80))"""


def with_long_lines():
    """The document of the viewer's tests, with lines and a table wider than half a window."""
    document = a_document()
    (tabs,) = document.blocks
    source, *others = tabs.tabs
    pane = source.blocks[0]
    lines = tuple(
        SourceLine(
            line.number,
            CODE if n % 2 else line.text,
            line.share,
            "12%, 37.4 kflop",
            line.under,
            line.line,
        )
        for n, line in enumerate(pane.lines)
    )
    source = replace(source, blocks=(SourcePane(pane.title, pane.scale, lines),))
    words = Cell("broadcast x 3, add, subtract x 2, multiply, exponential, reduce and more of it")
    name = Cell("fusion.1", ids=("fusion.1",))
    cells = tuple((name, words, words, *([Cell("65.5 kB")] * 5)) for _ in range(30))
    columns = ("kernel", "what", "from", *(f"column {n}" for n in range(5)))
    wide = TableBlock(Table("Wide", columns, cells, right=tuple(range(3, 8)), stage="kernels"))
    tab = Tab("Wide", (wide,), key="wide")
    return replace(document, blocks=(Tabs((source, tab, *others)),))


@pytest.mark.parametrize(
    ("width", "panes"),
    [
        (1280, ("source", "jaxpr")),
        (1280, ("source", "jaxpr", "wide")),
        (760, ("source", "wide")),
        (600, ("source",)),
    ],
)
def test_no_character_of_the_users_code_is_hidden(saved, width, panes):
    page = saved(html(with_long_lines()), width=width)
    choose(page, *panes)
    assert page.locator(".source-lines .rows > *").count() == 6
    assert page.evaluate(HIDDEN) == ""


UNDER_HEAD = """() => {
  const pane = document.querySelector("details[data-pane=wide] .pane-body");
  pane.scrollTop = 30;
  return [...pane.querySelectorAll("thead tr > *")].slice(0, 2).map((cell) => {
    const { left, right, top, bottom } = cell.getBoundingClientRect();
    return document.elementFromPoint((left + right) / 2, (top + bottom) / 2).textContent;
  });
}"""


def test_nothing_lies_under_the_ruler_or_over_the_head_of_a_table(saved):
    page = saved(html(with_long_lines()))
    choose(page, "source", "wide", "jaxpr")
    edges = page.evaluate(
        "[...document.querySelectorAll('.pane-frame')].filter(e => e.checkVisibility()).map(e =>"
        " [e.querySelector('.pane-body').getBoundingClientRect().right,"
        "  e.querySelector('.ruler').getBoundingClientRect().left])"
    )
    assert len(edges) == 3
    assert all(pane <= ruler + 0.5 for pane, ruler in edges)
    notes = page.evaluate(
        "[...document.querySelectorAll('.source-lines span')].map(e => e.closest('.pane-body')"
        ".getBoundingClientRect().right - e.getBoundingClientRect().right)"
    )
    assert min(notes) >= 4
    assert page.evaluate(UNDER_HEAD) == ["kernel", "what"]


CELLS = """() => [...document.querySelectorAll("details[data-pane=wide] tr")].map((row) =>
  [...row.cells].filter((e) => e.checkVisibility()).map((e) => e.textContent))"""


def test_columns_that_do_not_fit_are_below_their_row(saved):
    page = saved(html(with_long_lines()), width=900)
    choose(page, "source", "wide")
    page.wait_for_selector("details[data-pane=wide] .below")
    head, row, below, *_ = page.evaluate(CELLS)
    assert head[:2] == ["kernel", "what"]
    assert row[0] == "fusion.1"
    assert len(head) == len(row) < 8
    assert "column 4 65.5\xa0kB" in below[0]
    body = page.locator("details[data-pane=wide] .pane-body")
    assert body.evaluate("e => e.scrollWidth - e.clientWidth") <= 0
    page.locator("details[data-pane=wide] tbody tr").first.click()
    assert page.locator("details[data-pane=wide] tr.below.pin").count() == 30  # rows of one kernel
    page.set_viewport_size({"width": 2400, "height": 900})
    choose(page, "wide")
    page.wait_for_selector("details[data-pane=wide] .below", state="detached")
    head, *rows = page.evaluate(CELLS)
    assert len(head) == 8
    assert len(rows) == 30


def test_the_keys_go_from_row_to_row_past_what_is_below_them(saved):
    page = saved(html(with_long_lines()))
    choose(page, "wide", "jaxpr")
    page.wait_for_selector("details[data-pane=wide] .below")
    page.locator("details[data-pane=wide] .pane-body").focus()
    for _ in range(3):
        page.keyboard.press("j")
    rows = page.locator("details[data-pane=wide] tbody tr:not(.below)")
    assert "row-cursor" in rows.nth(2).get_attribute("class").split()


def test_a_pane_says_that_it_goes_on(saved):
    page = saved(html(with_wide_rows(24)))
    more = "document.querySelector('.pane-frame').classList.contains('more')"
    page.wait_for_function(more)
    page.locator(".pane-body").evaluate("e => { e.scrollLeft = e.scrollWidth }")
    page.wait_for_function(f"!{more}")


BOXES = """() => Object.fromEntries([...document.querySelectorAll(
    "details[open] > div, .node-details, .jaxlens")].map((e) => {
  const { left, right, top, bottom } = e.getBoundingClientRect();
  return [e.parentElement.dataset?.pane ?? e.classList[0], { left, right, top, bottom }];
}))"""


@pytest.mark.parametrize("name", ["mlp_step.cpu", "attention.cpu", "scan_rnn.cpu", "wide_step.gpu"])
@pytest.mark.parametrize("verb", [jaxlens.explore, jaxlens.compile])
def test_both_panes_and_the_strip_are_in_sight_beside_a_sidebar(saved, name, verb):
    page = saved(verb(RECORDS / f"{name}.jaxlens").html(), width=915, height=768)
    page.wait_for_selector(".node-details .hint")
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    boxes = page.evaluate(BOXES)
    root, strip, code = boxes.pop("jaxlens"), boxes.pop("node-details"), boxes.pop("source")
    assert root["bottom"] - root["top"] <= 768 - 120 + 1
    assert strip["bottom"] <= 768
    assert code["right"] - code["left"] <= 0.4 * (root["right"] - root["left"]) + 1
    assert code["right"] <= min(box["left"] for box in boxes.values())
    assert all(box["top"] == code["top"] < box["bottom"] <= strip["top"] for box in boxes.values())


def test_what_is_pinned_stays_in_sight_when_the_strip_grows(saved):
    page = saved(html(a_document()), width=800, height=420)
    choose(page, "source", "jaxpr")
    body = page.locator("details[data-pane=jaxpr] .pane-body")
    before = body.bounding_box()
    ids = page.locator("details[data-pane=jaxpr] .listing [data-id]").evaluate_all(
        "(all, end) => all.filter(e => e.getBoundingClientRect().bottom < end)"
        ".map(e => e.dataset.id)",
        before["y"] + before["height"],
    )
    row(page, "jaxpr", ids[-1]).click()
    page.wait_for_selector(".node-details.pinned")
    page.wait_for_function(
        "() => { const pin = document.querySelector('.pin').getBoundingClientRect();"
        " const body = document.querySelector('details[data-pane=jaxpr] .pane-body');"
        " return pin.bottom <= body.getBoundingClientRect().bottom + 1 }"
    )


def test_full_screen_gives_the_panes_the_whole_window(saved):
    page = saved(html(a_document(long=400)), height=700)
    choose(page, "optimized")
    body = page.locator("details[data-pane=optimized] .pane-body")
    before = body.bounding_box()["height"]
    page.get_by_role("button", name="Full screen").click()
    page.wait_for_function(f"document.querySelector('[open] .pane-body').clientHeight > {before}")
    assert page.evaluate("document.fullscreenElement.className") == "jaxlens"
    strip = page.locator(".node-details").bounding_box()
    assert strip["y"] + strip["height"] <= page.evaluate("innerHeight")
    page.evaluate("document.exitFullscreen()")
    page.wait_for_function(f"document.querySelector('[open] .pane-body').clientHeight <= {before}")


@pytest.mark.parametrize(
    ("width", "keys"),
    [
        (700, ["source", "optimized"]),
        (1200, ["source", "optimized"]),
        (1800, ["source", "jaxpr", "optimized"]),
    ],
)
def test_a_wide_window_is_used(saved, width, keys):
    page = saved(html(replace(a_document(), verb="explore")), width=width)
    shown = page.locator(".bar [aria-pressed=true]")
    assert shown.evaluate_all("all => all.map(e => e.dataset.key)") == keys


def test_a_line_says_what_became_of_its_equations(saved):
    page = saved(html(a_document()))
    choose(page, "source", "jaxpr")
    page.locator(".source-lines [data-line='cell 3:4'] > summary").hover()
    lit(page)
    assert (
        "owns 6 ops; of 6 equations: 6 fused into 1 kernel."
        in page.locator(".node-details").inner_text()
    )


def test_all_controls_have_names_and_the_focus_goes_through_them_in_order(saved):
    page = saved(html(with_long_lines()))
    choose(page, "source", "jaxpr", "wide")
    row(page, "jaxpr", "e1").click()
    assert page.evaluate(UNNAMED) == []
    assert page.evaluate("[...document.querySelectorAll('.jaxlens *')].every(e => e.tabIndex <= 0)")
    page.evaluate("document.activeElement.blur(); getSelection().removeAllRanges()")
    page.evaluate("document.body.tabIndex = -1; document.body.focus()")
    order = []
    for _ in range(80):
        page.keyboard.press("Tab")
        place, ring = page.evaluate(
            "(() => { const e = document.activeElement, style = getComputedStyle(e);"
            " return [[...document.querySelectorAll('.jaxlens *')].indexOf(e),"
            " style.outlineStyle] })()"
        )
        if place < 0:
            break
        assert ring != "none"
        order.append(place)
    assert order == sorted(order)
    assert len(order) > 12


def with_wide_rows(page_holds):
    """The jaxpr of the viewer's tests alone, its lines wider than any pane."""
    document = a_document()
    (tabs,) = document.blocks
    lines = tuple(
        replace(line, pieces=(*line.pieces, Piece(f" {'wide' * 100} {line.id}")))
        for line in tabs.tabs[1].blocks[0].lines
    )
    listing = Listing("jaxpr", lines[:page_holds], more=lines[page_holds:])
    return replace(document, blocks=(Tabs((Tab("jaxpr", (listing,), key="jaxpr"),)),))


@pytest.mark.parametrize("page_holds", [24, 8])  # all rows in the page; a list that draws its own
@pytest.mark.parametrize("light", [True, False])
def test_the_gutter_stays_when_a_listing_scrolls_sideways(saved, page_holds, light):
    page = saved(html(with_wide_rows(page_holds)), light=light, width=700)
    pane = page.locator("details[data-pane=jaxpr] .pane-body")
    page.mouse.move(690, 5)
    box = pane.bounding_box()
    seen = {"x": box["x"], "y": box["y"] + 4, "width": 95, "height": 300}
    rest = {**seen, "x": box["x"] + 140, "width": 200}
    before = page.screenshot(clip=seen), page.screenshot(clip=rest)
    pane.evaluate("e => { e.scrollLeft = 333 }")
    page.wait_for_function(
        "document.querySelector('.pane-frame.more .pane-body').scrollLeft === 333"
    )
    lit(page)
    assert page.screenshot(clip=seen) == before[0]
    assert page.screenshot(clip=rest) != before[1]
    names = page.locator(".listing > .rows > [data-line]").evaluate_all(
        "all => all.map(e => getComputedStyle(e, '::before').content)"
    )
    assert names[0] == '"cell 3:2"'


def test_kernels_are_sorted_by_the_number_that_is_chosen(saved):
    numbers = (("98.3 kB", "24 flop"), ("156 kB", "2 Mflop"), ("1,024 B", "-"), ("8 B", "4 kflop"))
    cells = tuple(
        (Cell(f"k{n}", ids=(f"k{n}", f"fusion.{n}")), *map(Cell, pair))
        for n, pair in enumerate(numbers)
    )
    table = Table("Kernels", ("kernel", "bytes", "flops"), cells, right=(1, 2), stage="kernels")
    (tabs,) = a_document().blocks
    tab = Tab("Kernels", (TableBlock(table),), key="kernels")
    page = saved(html(replace(a_document(), blocks=(Tabs((*tabs.tabs[:4], tab)),))))
    choose(page, "source", "kernels")
    kernels = page.locator("details[data-pane=kernels] tbody tr:not(.below)")
    for name, order in (("bytes", "1023"), ("flops", "1302")):
        page.get_by_role("button", name=name, exact=True).press("Enter")
        names = kernels.locator("td:first-child").all_inner_texts()
        assert names == [f"k{n}" for n in order]
        assert page.locator("[aria-sort=descending]").inner_text().startswith(name)
    page.evaluate(
        "document.querySelector('.jaxlens').dispatchEvent(new CustomEvent('jl-reveal',"
        " { detail: { stage: 'kernels', id: 'fusion.3' } }))"
    )
    page.wait_for_selector("tr.row-cursor")
    assert kernels.nth(1).get_attribute("class").split()[-1] == "row-cursor"


@pytest.mark.parametrize("scripts", [True, False])
def test_bars_of_all_lines_begin_at_one_place(saved, new_page, scripts):
    document = with_long_lines()
    (tabs,) = document.blocks
    pane = tabs.tabs[0].blocks[0]
    notes = ("1%, 161 flop", "70%, 17.9 kflop", "< 1%, 2 flop", "100%, 1.35 kflop")
    lines = tuple(
        replace(line, text="x = y", share=0.1 * n + 0.1, note=note)
        for n, (line, note) in enumerate(zip(pane.lines, notes, strict=False))
    )
    source = Tab("Your code", (replace(pane, lines=lines),), key="source")
    document = Document("hlo", "f", (Tabs((source,)),), document.web)
    page = saved(html(document), width=620) if scripts else new_page(620)
    if not scripts:
        page.set_content(styles() + body(document))
    bars = page.evaluate(
        "[...document.querySelectorAll('.source-lines span > i')]"
        ".map(e => e.getBoundingClientRect().left)"
    )
    assert len(bars) == 4
    assert min(bars) > 0
    assert max(bars) - min(bars) < 0.5


def test_what_follows_a_long_table_is_below_it(saved):
    cells = tuple((Cell(f"fusion.{n}"), Cell("65.5 kB")) for n in range(40))
    table = TableBlock(Table("Long", ("kernel", "bytes"), cells, note="Bytes: read and written."))
    tabs = Tabs((Tab("Long", (table,), key="long"),))
    page = saved(html(replace(a_document(), blocks=(tabs,))))
    page.wait_for_selector(".pane-body .remark")
    end, note = page.evaluate(
        "['table', '.remark'].map(s => document.querySelector(`.pane-body ${s}`)"
        ".getBoundingClientRect()).map((box, n) => n ? box.top : box.bottom)"
    )
    assert note >= end


def test_a_column_beside_long_names_is_below_its_row_and_not_cut_off(saved):
    name = Cell("multiply_subtract_fusion.1", ids=("fusion.1",))
    cells = ((name, Cell("786 kB"), Cell("131 kflop"), Cell("cell 3:2")),)
    table = Table("Long", ("kernel", "bytes", "flops", "line"), cells, right=(1, 2))
    tabs = Tabs((Tab("Long", (TableBlock(table),), key="long"),))
    document = replace(a_document(), blocks=(TableBlock(table), tabs))  # in a pane, and in none
    page = saved(html(document), width=340)
    page.wait_for_function("document.querySelectorAll('.below').length == 2")
    rest = "[...document.querySelectorAll('.table-box')].map(e => e.scrollWidth - e.clientWidth)"
    assert page.evaluate(rest) == [0, 0]


def test_short_lines_leave_the_room_to_what_they_became(saved):
    page = saved(html(a_document()), width=1400)
    boxes = page.evaluate(BOXES)
    code, root = boxes["source"], boxes["jaxlens"]
    assert code["right"] - code["left"] < 0.25 * (root["right"] - root["left"])
    assert page.evaluate(HIDDEN) == ""
    heights = "[...document.querySelectorAll('.source-lines .rows > *')].map(e => e.clientHeight)"
    assert len(set(page.evaluate(heights))) == 1  # none is broken
