"""axe finds nothing in outputs and lessons: names, roles, contrast, headings of tables.

Lessons as readers meet them: whole in a narrow window, and evidence that is open.
"""

from importlib.resources import files
from pathlib import Path

import jax.numpy as jnp
import nbformat
import pytest

import jaxlens
from jaxlens.course import progress_file

LESSONS = Path(__file__).parents[2] / "notebooks" / "course"
# A tape, graphs, passes, charts, a map: each kind of output once.
CHOSEN = ["03_*", "04_*", "21_*", "28_*", "index"]

# axe's rules for whole pages (landmarks, a heading, a language) are the notebook's business.
AXE = "axe.run('.jaxlens').then((result) => result.violations)"


def violations(page):
    axe = pytest.importorskip("axe_playwright_python")
    if not page.evaluate("'axe' in window"):
        page.evaluate((files(axe) / "axe.min.js").read_text("utf-8"))
    return [
        f"{broken['id']} ({len(broken['nodes'])}): {broken['nodes'][0]['html'][:200]}"
        for broken in page.evaluate(AXE)
    ]


def in_all_panes(page):
    """Violations in every pane, shown one after the other."""
    broken = violations(page)
    tabs = page.locator(".jaxlens .bar button[data-key]").all()
    for tab in tabs if len(tabs) > 1 else ():
        tab.click()
        page.wait_for_timeout(500)
        broken += violations(page)
    return broken


def outputs(name):
    """The HTML of a lesson's outputs."""
    (path,) = LESSONS.glob(f"{name}.ipynb")
    cells = nbformat.read(path, as_version=4).cells
    datas = [out.get("data", {}) for cell in cells for out in cell.get("outputs", [])]
    return [data["text/html"] for data in datas if "text/html" in data]


@pytest.fixture
def course(tmp_path):
    for id in ("1.1", "1.2", "7.1"):
        progress_file.record("solved", id, tmp_path)
    return jaxlens.course.progress(tmp_path)


@pytest.mark.parametrize("light", [True, False], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1200, 420])
def test_the_map(saved, course, light, width):
    page = saved(course.html(), light=light, width=width)
    assert in_all_panes(page) == []
    assert page.locator("svg.jaxlens-figure").is_visible()


@pytest.mark.parametrize("light", [True, False], ids=["light", "dark"])
def test_a_compile(saved, light):
    def f(x):
        return jnp.tanh(x * 2).sum()

    page = saved(jaxlens.compile(f, jnp.ones(8)).html(), light=light)
    assert in_all_panes(page) == []


def test_the_rows_of_a_pass_that_scroll_take_the_focus(saved):
    def f(x):
        return sum(jnp.tanh(x * n).sum() for n in range(12))

    view = jaxlens.hlo(jaxlens.capture(f, jnp.ones(8)), passes=True)
    page = saved(view.html(), ready=".passes .scrub")
    page.get_by_label("whole program").check()
    assert page.locator(".passes .rows").evaluate("e => e.scrollHeight > e.clientHeight")
    assert violations(page) == []


def test_an_answer_that_is_wrong(saved):
    def layer(w, b, x):
        return jnp.where(x @ w + b > 0, x @ w + b, 0.0)

    outcome = jaxlens.course.check("1.1", {"layer": layer})
    assert not outcome.solved
    assert in_all_panes(saved(outcome.html())) == []


@pytest.fixture
def show(saved):
    """`show(fragments, light, width) -> page`: a saved page of these outputs."""

    def show_(*fragments, light=True, width=1200):
        ground = f"<style>body{{background:{'#fff' if light else '#111'}}}</style>"
        return saved(ground, *fragments, light=light, width=width, ready=".jaxlens")

    return show_


def test_the_evidence_of_a_puzzle_is_open_beside_the_code(show):
    (puzzle, *_) = [output for output in outputs("06_*") if "data-verb=puzzle role" in output]
    page = show(puzzle)
    shown = page.locator(".bar [aria-pressed=true]")
    assert shown.all_inner_texts() == ["Your code", "jaxpr"]
    assert page.locator("[data-pane=jaxpr] .listing").is_visible()


def test_a_prediction_says_nothing_before_it_is_answered(show):
    (prediction, *_) = [output for output in outputs("04_*") if ">Answer<" in output]
    page = show(prediction)
    assert page.locator("[data-verb=predict] .title-line").inner_text().startswith("Predict: ")
    answer = page.get_by_text("The answer is")
    assert not answer.is_visible()
    page.get_by_text("Answer", exact=True).click()
    answer.click()
    assert page.locator("[data-pane=jaxpr] .listing").is_visible()


@pytest.mark.parametrize("light", [True, False], ids=["light", "dark"])
@pytest.mark.parametrize("name", CHOSEN)
def test_axe_finds_nothing_in_a_lessons_outputs(show, name, light):
    page = show(*outputs(name), light=light)
    assert violations(page) == []


@pytest.mark.parametrize("name", CHOSEN)
def test_in_a_narrow_window_outputs_scroll_and_the_page_does_not(show, name):
    page = show(*outputs(name), width=560)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("light", [True, False], ids=["light", "dark"])
def test_a_card_with_all_that_it_has(saved, light):
    page = saved(jaxlens.explore(lambda x: jnp.tanh(x).sum(), jnp.ones(8)).html(), light=light)
    page.locator(".bar button", has_text="jaxpr").click()
    page.locator(".jaxlens pre:visible b").first.click()
    page.keyboard.press("h")
    page.keyboard.press("h")
    assert page.locator(".tip.on details[open]").count() > 0
    assert violations(page) == []
