"""Long listings of the viewer in a real browser: few elements, all lines within reach."""

from dataclasses import replace

import pytest

from jaxlens.render.document import Line, Piece, Tabs
from jaxlens.render.html import document_html as html_module
from jaxlens.render.html import payload
from jaxlens.render.html.document_html import html
from tests.support.browsing import wait_for
from tests.support.viewer_pages import a_document, choose, lit, row

LONG = 20_000


def room(monkeypatch, rows):
    """Lets an output carry so many lines beyond those shown."""
    budget = payload.Budget
    monkeypatch.setattr(html_module, "Budget", lambda **known: budget(**known | {"rows": rows}))


def replaced(document, before, after):
    """Returns the document with another block in the place of one in its tabs."""

    def swap(tab):
        blocks = (after if block is before else block for block in tab.blocks)
        return replace(tab, blocks=tuple(blocks))

    blocks = (
        replace(block, tabs=tuple(map(swap, block.tabs))) if isinstance(block, Tabs) else block
        for block in document.blocks
    )
    return replace(document, blocks=tuple(blocks))


def rows(page):
    return page.locator(".long-list [data-n]").all_inner_texts()


def in_long_list(page):
    return page.evaluate("document.querySelectorAll('.long-list [data-n]').length")


def test_a_long_listing_holds_few_rows_and_all_of_them_can_be_reached(saved, monkeypatch):
    room(monkeypatch, LONG)
    document = a_document(LONG)
    page = saved(html(document))
    choose(page, "optimized", "jaxpr")
    page.wait_for_selector(".long-list [data-n]")
    pane = page.locator("details[data-pane=optimized] .pane-body")
    assert in_long_list(page) < 120
    last = rows(page)
    for share in (0.3, 0.77, 1):
        pane.evaluate("(e, share) => { e.scrollTop = share * e.scrollHeight }", share)
        wait_for(lambda before=last: rows(page) != before, "other rows", 10)
        assert in_long_list(page) < 120
        last = rows(page)
    end = f"fusion.{LONG - 1} = op{(LONG - 1) % 7}"
    wait_for(lambda: end in "".join(rows(page)), "the last row", 10)
    box = page.locator("details[data-pane=optimized] .pane-head").get_by_role("searchbox")
    box.fill("fusion.1234")
    assert page.locator("details[data-pane=optimized] output").inner_text() == "1 of 11"
    assert "fusion.1234 = op2" in page.locator(".long-list .row-cursor").inner_text()
    box.press("Escape")
    pane.focus()
    page.keyboard.press("End")
    assert f"fusion.{LONG - 1} =" in page.locator(".long-list .row-cursor").inner_text()


def test_a_highlight_over_a_long_listing_is_right(saved, monkeypatch):
    room(monkeypatch, LONG)
    document = a_document(LONG)
    page = saved(html(document))
    choose(page, "jaxpr", "optimized")
    page.wait_for_selector(".long-list [data-n]")
    row(page, "jaxpr", "e4").hover()
    seen = set(lit(page))
    visible = {
        r.strip().split(" ")[0] for r in page.locator(".long-list [data-n]").all_inner_texts()
    }
    expected = {i for i, own in document.web.atoms["optimized"].items() if 4 in own} & visible
    assert seen == {"jaxpr e4"} | {f"optimized {i}" for i in expected}
    pane = page.locator("details[data-pane=optimized] .pane-body")
    pane.evaluate("e => { e.scrollTop = 0.5 * e.scrollHeight }")
    row(page, "jaxpr", "e4").click()
    page.keyboard.press("]")
    page.keyboard.press("n")
    assert page.locator(".long-list .row-cursor.lit").count() == 1


def test_the_ruler_shows_distant_matches_and_leads_there(saved, monkeypatch):
    room(monkeypatch, LONG)
    page = saved(html(a_document(LONG)))
    choose(page, "jaxpr", "optimized")
    page.wait_for_selector(".long-list [data-n]")
    ruler = page.locator("details[data-pane=optimized] .ruler")
    inked = "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v)"
    assert not ruler.evaluate(inked)
    row(page, "jaxpr", "e4").click()
    page.wait_for_timeout(100)
    assert ruler.evaluate(inked)
    height = ruler.bounding_box()["height"]
    ruler.click(position={"x": 6, "y": height * 0.6})
    page.wait_for_timeout(100)
    pane = page.locator("details[data-pane=optimized] .pane-body")
    share = pane.evaluate("e => (e.scrollTop + e.clientHeight / 3) / e.scrollHeight")
    assert share == pytest.approx(0.6, abs=0.02)
    assert [mark for mark in lit(page) if mark.startswith("optimized")]


def test_a_live_kernel_fills_in_the_lines_that_the_file_left_out(saved, monkeypatch):
    room(monkeypatch, 100)
    document = a_document(2000)
    listing = document.blocks[0].tabs[3].blocks[0]
    lines = [*listing.lines, *listing.more]
    answers = {n: payload.lines_data(lines[n : n + 500]) for n in range(112, 2000, 500)}
    markup = html(document)
    assert "1,888 more lines in a live session." in markup
    page = saved(markup)
    page.wait_for_selector(".long-list [data-n]")
    page.evaluate(
        """answers => { window.asked = []; const root = document.querySelector('.jaxlens');
        root.jaxlens.fetch = (what) => { asked.push(what);
          return Promise.resolve(answers[what.lines.from]); };
        root.dataset.kernel = 'live';
        root.dispatchEvent(new CustomEvent('jl-kernel')); }""",
        {str(n): answer for n, answer in answers.items()},
    )
    assert not page.locator(".saved-only").is_visible()
    page.locator("details[data-pane=optimized] .pane-body").evaluate("e => { e.scrollTop = 1e9 }")
    page.wait_for_function(
        "document.querySelector('.long-list').innerText.includes('fusion.1999 =')"
    )
    asked = page.evaluate("asked")
    assert asked[-1] == {"lines": {"listing": 2, "from": 1612, "to": 2000}}
    assert all(what["lines"]["to"] - what["lines"]["from"] <= 500 for what in asked)
    page.locator("details[data-pane=optimized] input[type=search]").fill("fusion.777 =")
    page.wait_for_function(
        "document.querySelector('details[data-pane=optimized] output').innerText === '1 of 1'"
    )


def test_a_row_that_stands_for_others_opens_by_click_and_key_and_is_lit_for_them(saved):
    document = a_document()
    (panes,) = (block for block in document.blocks if isinstance(block, Tabs))
    (listing,) = next(tab.blocks for tab in panes.tabs if tab.key == "optimized")
    summary = Line((Piece("op x 8", "op"),), folds=8)
    folded = replace(listing, lines=(summary, *listing.lines[8:]), more=listing.lines[:8])
    page = saved(html(replaced(document, listing, folded)))
    choose(page, "optimized", "jaxpr")
    rows = page.locator("[data-pane=optimized] .long-list [data-n]")
    shown = ["op x 8", *(f"fusion.{n}" for n in range(8, 12))]

    def names():
        texts = sorted((e.bounding_box()["y"], e.inner_text()) for e in rows.all())
        return [text.split(" =")[0].strip() for _, text in texts]

    assert names() == shown
    rows.first.click()
    assert names() == ["op x 8", *(f"fusion.{n}" for n in range(12))]
    rows.first.click()
    assert names() == shown
    row(page, "jaxpr", "e4").click()  # fusion.2 holds its op, and so does fusion.14 of 24
    assert "lit" in rows.first.get_attribute("class")
    page.locator("[data-pane=optimized] .pane-body").focus()
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    assert rows.first.get_attribute("aria-expanded") == "true"
    assert "lit" not in (rows.first.get_attribute("class") or "")
    for _ in range(3):
        page.keyboard.press("j")
    assert "fusion.2 =" in page.locator("[data-pane=optimized] .row-cursor").inner_text()
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    page.locator("[data-pane=optimized]").get_by_role("searchbox").fill("fusion.7")
    assert names()[:3] == ["op x 8", "fusion.0", "fusion.1"]  # a match opens what hides it
