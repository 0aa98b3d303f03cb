"""The first paint of a large program in JupyterLab, and what its reader does before the rest."""

from tests.support.browsing import wait_for

HELD = """%load_ext jaxlens
import time
from pathlib import Path
from jaxlens.views.view import View
from tests.support import programs
text = View.text
def held(view):
    while not Path("go").exists(): time.sleep(0.05)
    return text(view)
View.text = held
"""


def test_what_a_reader_does_in_the_first_paint_stays(open_notebook, lab):
    go = lab.root / "go"
    setup = HELD + "f, args = programs.gpt_step(6, width=16, length=8, vocab=32, biases=True)"
    page = open_notebook("first.ipynb", [setup, "pass"])
    output, body = page.locator(".jaxlens"), page.locator("details[data-pane=jaxpr] .pane-body")

    def first_paint():
        go.unlink(missing_ok=True)
        page.locator(".jp-CodeCell .cm-content").nth(1).click()
        page.keyboard.press("Control+a")
        page.keyboard.insert_text("%%jaxpr\nf(*args)")
        page.keyboard.press("Control+Enter")
        page.wait_for_selector("[data-pane=graph]:has-text('being made')", state="attached")
        body.wait_for()
        return output.get_attribute("data-key")

    def complete(first):
        go.touch()
        page.wait_for_selector(f".jaxlens[data-live]:not([data-key={first}])")
        assert output.count() == 1

    first = first_paint()
    before = output.bounding_box()
    complete(first)
    assert output.bounding_box() == before

    first = first_paint()
    row = body.locator("[data-id]").nth(9)
    row.click()
    body.evaluate("e => e.scrollTo(20, 300)")
    page.locator(".bar [data-key=graph]").click(modifiers=["Shift"])
    body.focus()
    pinned = body.locator(".pin").first.get_attribute("data-id")
    complete(first)
    page.locator("details[data-pane=graph] .graph-box").first.wait_for()
    wait_for(lambda: body.locator(".pin").count(), "the pin", 10)
    assert body.locator(".pin").first.get_attribute("data-id") == pinned
    assert body.evaluate("e => [e.scrollLeft, e.scrollTop]") == [20, 300]
    assert body.evaluate("e => e === document.activeElement")
