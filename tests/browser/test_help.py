"""Cards that say what a word means: by pointer, by key, by event, and with hostile names."""

import pytest

from jaxlens.ir.glossary import address, entry
from jaxlens.render.document import Document, Line, Listing, Piece, Tab, Tabs
from jaxlens.render.html.document_html import body, html

EVIL = '<img src=x onerror="window.ran=1">'
PAGE = "<!doctype html><meta charset=utf-8><body>{}"


def row(id, op, *attributes, name="", tail=""):
    shown = [Piece(f", {text}", "attr") for text in attributes]
    named = Piece(f"{name or id}", "name")
    return Line((named, Piece(" = "), Piece(op, "op"), Piece("(x)"), *shown, Piece(tail)), id)


SCAN = (
    Piece("c = "),
    Piece("scan", "op"),
    Piece("["),
    Piece("length=8", "attr"),
    Piece(" unroll=2", "attr"),
    Piece("]"),
    Piece(" a b", "name"),
)
HLO = Listing(
    "optimized",
    (
        row("add.1", "add"),
        row("fusion.2", "fusion", "kind=kLoop", "calls=fused"),
        row("call.3", "custom-call", f'custom_call_target="{EVIL}"'),
        row("evil", EVIL, f"{EVIL}=3"),
        row("tanh.4", "tanh"),
        row("tanh.5", "tanh"),
        row("tanh.6", "tanh"),
        row("tanh.7", "tanh"),
        row("tanh.8", "tanh"),
        row("tanh.9", "tanh"),
        row("wide", "exponential", tail=" and so on" * 40),
        row("next", "negate", tail=" and so on" * 40),
        row("last", "sine", tail=" and so on" * 40),
    ),
)
JAXPR = Listing("jaxpr", (Line(SCAN, "e1"), Line((Piece("d = "), Piece("scan_it", "op")), "e2")))
DOCUMENT = Document(
    "jaxpr",
    "f(x)",
    (
        Tabs(
            (Tab("HLO", (HLO,), key="optimized"), Tab("jaxpr", (JAXPR,), key="jaxpr")),
            open=("optimized", "jaxpr"),
        ),
    ),
)


@pytest.fixture
def page(new_page):
    """The document in two panes."""
    shown = new_page(1300)
    shown.set_content(PAGE.format(html(DOCUMENT)))
    shown.wait_for_selector(".jaxlens .tip", state="attached")
    shown.wait_for_selector('[data-stage=jaxpr] [data-id="e1"]')
    yield shown
    assert shown.evaluate("window.ran") is None
    assert shown.locator(".jaxlens img").count() == 0


def line(page, id):
    """A row by its node, which HLO's rows name in their text."""
    return page.locator(f'[data-id="{id}"], [data-id=""]:has-text("{id} = ")').first


def point(page, id, word):
    """Moves the pointer onto a word of a row."""
    box = line(page, id).evaluate(
        """(row, word) => {
          const texts = document.createTreeWalker(row, NodeFilter.SHOW_TEXT);
          for (let text; (text = texts.nextNode());) {
            const at = text.data.indexOf(word);
            if (at < 0) continue;
            const range = document.createRange();
            range.setStart(text, at);
            range.setEnd(text, at + word.length);
            const { x, y, width, height } = range.getBoundingClientRect();
            return [x + Math.min(width / 2, 40), y + height / 2];
          }
        }""",
        word,
    )
    page.mouse.move(*box)


def card(page):
    page.wait_for_selector(".tip.on")
    return page.locator(".tip")


def has_none(page):
    page.wait_for_timeout(700)
    return page.locator(".tip.on").count() == 0


@pytest.mark.parametrize(
    ("id", "word", "kind"),
    [
        ("e1", "scan", "primitive"),
        ("add.1", "add", "instruction"),
        ("tanh.4", "tanh", "instruction"),
    ],
)
def test_an_operation_tells_its_sentence_and_page(page, id, word, kind):
    told = entry(kind, word)
    if id.startswith("e"):
        point(page, id, word)
    else:
        line(page, id).locator("b").hover()
    assert card(page).locator("b").all_text_contents() == [word]
    assert card(page).locator("p:visible").all_text_contents() == [told.sentence]
    assert card(page).locator("details p").all_text_contents() == list(told.expert)
    assert card(page).locator(".lesson").text_content().startswith(f"lesson {told.lesson}, ")
    link = card(page).locator("a")
    assert link.text_content() == told.link
    assert link.get_attribute("href") == address(told.link)
    assert link.get_attribute("rel") == "noopener noreferrer"


@pytest.mark.parametrize(
    ("id", "word", "name"),
    [
        ("e1", "length", "scan.length"),
        ("fusion.2", "kind", "fusion.kind"),
        ("fusion.2", "kLoop", "kLoop"),
        ("fusion.2", "calls", "calls"),
    ],
)
def test_an_attribute_tells_what_it_means_there(page, id, word, name):
    point(page, id, word)
    assert card(page).locator("p:visible").text_content() == entry("attribute", name).sentence
    assert card(page).locator("a").text_content()  # its own page, or its operation's


def test_a_card_comes_after_a_rest_and_goes_with_the_pointer_or_escape(page):
    point(page, "e1", "scan")
    assert page.locator(".tip.on").count() == 0
    card(page)
    page.keyboard.press("Escape")
    assert page.locator(".tip.on").count() == 0
    point(page, "e1", "unroll")
    card(page)
    page.mouse.move(2, 2)
    assert has_none(page)


def test_the_pointer_can_go_to_the_card(page):
    point(page, "e1", "scan")
    box = card(page).bounding_box()
    page.mouse.move(box["x"] + 30, box["y"] + box["height"] / 2)
    page.wait_for_timeout(600)
    assert page.locator(".tip.on").count() == 1


def test_hostile_names_stay_text(page):
    line(page, "call.3").locator("b").hover()
    assert card(page).locator("b").text_content() == "custom-call"
    for word in ("onerror", "window.ran", "img"):
        point(page, "call.3", word)
        assert has_none(page)
    point(page, "evil", "img src")
    assert has_none(page)
    tell(page, "primitive", EVIL)
    assert has_none(page)
    page.evaluate("""() => {
      const help = document.querySelector(".jaxlens");
      help.querySelector("[data-id=e1] b").textContent = '<img src=x onerror="window.ran=1">';
    }""")
    point(page, "e1", "length")
    assert EVIL in card(page).text_content()
    assert card(page).locator("img").count() == 0


def tell(page, kind, word):
    page.evaluate(
        """([kind, word]) => document.querySelector(".jaxlens pre").dispatchEvent(new CustomEvent(
          "jl-help", { bubbles: true, detail: kind && { kind, word, x: 300, y: 300 } }))""",
        [kind, word],
    )


def test_other_scripts_ask_by_an_event(page):
    tell(page, "primitive", "scan")
    assert card(page).locator("p:visible").text_content() == entry("primitive", "scan").sentence
    tell(page, None, "")
    assert page.locator(".tip.on").count() == 0
    tell(page, "primitive", "toString")
    assert page.locator(".tip.on").count() == 0


def test_h_tells_of_the_pinned_row_and_its_attributes(page):
    line(page, "fusion.2").click()
    page.mouse.move(2, 2)
    page.keyboard.press("h")
    assert card(page).locator("b").all_text_contents() == ["fusion", "kind", "kLoop", "calls"]
    page.keyboard.press("Escape")
    assert page.locator(".tip.on").count() == 0
    assert page.locator(".pin").count() > 0  # the first Escape took the card alone


def test_h_again_opens_what_experts_want_and_gives_the_focus_back(page):
    line(page, "fusion.2").click()
    line(page, "fusion.2").focus()
    page.mouse.move(2, 2)
    focused = page.evaluate("document.activeElement.textContent")
    page.keyboard.press("h")
    assert card(page).locator("details[open]").count() == 0
    page.keyboard.press("h")
    assert card(page).locator("details:not([open])").count() == 0
    assert card(page).get_by_text("how its loop runs").first.is_visible()
    assert page.evaluate("!!document.activeElement.closest('.tip')")
    page.keyboard.press("Tab")
    page.keyboard.press("h")
    assert page.locator(".tip.on").count() == 0
    assert page.evaluate("document.activeElement.textContent") == focused


def test_a_lesson_is_a_link_where_its_notebook_lies(new_page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "18_loops_that_stay_loops.ipynb").write_text("")
    shown = new_page()
    shown.set_content(PAGE.format(html(Document("jaxpr", "f(x)", (JAXPR,)))))
    shown.wait_for_selector(".jaxlens .tip", state="attached")
    shown.locator('[data-id="e1"] b').hover()
    link = card(shown).locator("a[data-lesson]")
    assert link.text_content() == "lesson 18, Loops that stay loops"
    assert link.get_attribute("href").endswith("18_loops_that_stay_loops.ipynb")
    assert link.get_attribute("target") == "_blank"
    assert not shown.locator("p.lessons").is_visible()


def test_a_card_keeps_off_the_row_and_its_neighbours(page):
    for id in ("tanh.4", "wide"):
        line(page, id).locator("b").hover()
        box = card(page).bounding_box()
        row = line(page, id).bounding_box()
        below = line(page, {"tanh.4": "tanh.5", "wide": "next"}[id]).bounding_box()
        beside = id == "tanh.4"
        if beside:
            assert abs(box["y"] - row["y"]) < 8
            text = line(page, "tanh.5").evaluate(
                "r => { const t = document.createRange(); t.selectNodeContents(r); "
                "return t.getBoundingClientRect().right }"
            )
            assert box["x"] > text
        else:
            assert box["y"] >= below["y"] + below["height"] - 1
        page.keyboard.press("Escape")


def test_h_answers_on_every_row(page):
    page.locator("[data-pane=optimized] .pane-body").focus()
    for _ in HLO.lines:
        page.keyboard.press("j")
        page.keyboard.press("h")
        card = page.locator(".tip.on")
        evil = page.locator("[data-pane=optimized] .row-cursor").inner_text().startswith("evil")
        assert ("The glossary has no word of this row." in card.inner_text()) == evil
        page.keyboard.press("Escape")


def test_nothing_is_told_without_scripts(new_page):
    plain = new_page()
    plain.set_content(PAGE.format(body(DOCUMENT)))
    assert plain.locator(".tip").count() == 0
    assert plain.locator("pre [title]").count() == 0
