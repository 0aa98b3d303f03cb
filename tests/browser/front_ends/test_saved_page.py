"""What `view.save("page.html")` writes: a page whose address names what is pinned."""

import pytest

from jaxlens.render.html.page import page as page_of
from tests.support.viewer_pages import a_document, choose, lit, row


@pytest.fixture
def open_page(new_page, tmp_path):
    """`open_page(hash) -> page`: the page of a document, opened at such an address."""
    path = tmp_path / "step.html"
    path.write_text(page_of(a_document(long=400)))
    asked = []

    def open_(hash=""):
        page = new_page()
        page.on("request", lambda request: asked.append(request.url.partition("#")[0]))
        page.goto(f"file://{path}{hash}")
        page.wait_for_selector(".jaxlens[data-address]", state="attached")
        return page

    yield open_
    assert {*asked} == {f"file://{path}"}


def pinned(page):
    return page.evaluate("document.querySelector('.jaxlens').jaxlens.links.pinned")


@pytest.mark.parametrize(
    ("hash", "node", "rows"),
    [
        ("#e12", {"stage": "jaxpr", "id": "e12"}, ["jaxpr e12"]),
        ("#fusion.300", {"stage": "optimized", "id": "fusion.300"}, ["optimized fusion.300"]),
        ("#optimized/fusion.1", {"stage": "optimized", "id": "fusion.1"}, ["optimized fusion.1"]),
        ("#cell%203:4", {"line": "cell 3:4"}, ["source cell 3:4"]),
    ],
)
def test_an_address_opens_the_page_with_its_pin_in_sight(open_page, hash, node, rows):
    page = open_page(hash)
    assert pinned(page) == node
    page.wait_for_selector(".pin:visible", timeout=5000)
    assert set(rows) <= set(lit(page, "pin"))
    shown = page.locator(".pin:visible").first
    pane = shown.locator("xpath=ancestor::*[contains(@class, 'pane-body')]").bounding_box()
    box = shown.bounding_box()
    assert pane["y"] <= box["y"] + 1
    assert box["y"] + box["height"] <= pane["y"] + pane["height"] + 1


def test_every_open_pane_scrolls_to_what_the_address_names(open_page):
    page = open_page()
    choose(page, "source", "jaxpr", "optimized")
    page.evaluate("location.hash = '#e23'")
    page.wait_for_function("document.querySelector('.jaxlens').jaxlens.links.pinned")
    assert "jaxpr e23" in lit(page, "pin")
    assert "optimized fusion.11" in lit(page)


def test_a_pin_becomes_the_address_and_letting_go_takes_it_away(open_page):
    page = open_page()
    choose(page, "source", "jaxpr")
    row(page, "jaxpr", "e5").click()
    assert page.evaluate("location.hash") == "#e5"
    page.locator("[data-pane=source] .rows > *").nth(2).locator(":scope > *").first.click()
    assert page.evaluate("location.hash") == "#cell%203:3"
    page.keyboard.press("Escape")
    assert page.evaluate("location.hash") == ""


def test_an_address_of_nothing_here_pins_nothing(open_page):
    for hash in ("#nowhere", "#%3Cimg%3E", "#hlo/"):
        assert pinned(open_page(hash)) is None


def test_answer_and_open_panes_are_copied_as_markdown(open_page):
    page = open_page()
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.evaluate("document.querySelector('.jaxlens').dataset.versions = 'jaxlens 1, jax 2'")
    choose(page, "source", "jaxpr", "said")
    page.get_by_role("button", name="md", exact=True).click()
    text = page.evaluate("window.copied")
    assert text.startswith("**f(x)**\n\njaxlens 1, jax 2\n\n")
    assert "**jaxpr**\n\n~~~~text\n  e0 = op0\n  e1 = op1\n" in text
    assert "**Said**\n\n~~~~text\nTwo are one." in text
    assert "**Your code**\n\n~~~~text\n1" in text
    assert text.count("~~~~") == 6
