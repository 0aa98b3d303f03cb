"""Widgets in a notebook that is opened again, its kernel gone: the last answer stands there."""

import json
import urllib.request

import pytest

from tests.support.browsing import wait_for

NAME = "kept.ipynb"
CELLS = [
    "%load_ext jaxlens\nimport jax, jax.numpy as jnp, jaxlens",
    "def loss(w, x):\n    return jnp.tanh(x @ w).sum()\nw, x = jnp.ones((4, 2)), jnp.ones((8, 4))",
    "jaxlens.Explorer(jaxlens.jaxpr(loss, w, x))",
    "lenses = jaxlens.Lenses(loss, w, x)\nlenses",
    "lenses.ask('cost')",
]
EXPLORER, LENSES = 2, 3


def outputs(page, cell):
    """The outputs of a cell that are in sight."""
    found = page.locator(".jp-CodeCell").nth(cell).locator(".jp-OutputArea-child")
    return [o for o in found.all() if o.is_visible()]


def words(page, cell):
    return " ".join(output.inner_text() for output in outputs(page, cell))


@pytest.fixture(scope="module")
def live(open_notebook):
    page = open_notebook(NAME, CELLS)
    page.locator(".jp-CodeCell").nth(LENSES).get_by_text(
        "own figure for the optimised"
    ).first.wait_for(state="attached")
    return page


@pytest.fixture(scope="module")
def again(live, lab, open_notebook):
    live.keyboard.press("Control+s")
    path = lab.root / NAME

    def saved():
        book = json.loads(path.read_text())
        return all(cell["execution_count"] for cell in book["cells"]) and book

    book = wait_for(saved, "the notebook to be saved")
    assert "widgets" not in book["metadata"]
    live.close()
    for session in lab.get("/api/sessions"):
        if session["path"] == NAME:
            address = f"{lab.url}/api/sessions/{session['id']}"
            urllib.request.urlopen(urllib.request.Request(address, method="DELETE")).close()
    page = open_notebook(NAME)
    # What Lab itself says where nothing was left: the widget's place, which ours hides.
    wait_for(lambda: page.get_by_text("model not found").count() == 1, "Lab to look for the models")
    return page


def test_while_the_kernel_lives_there_is_the_widget_alone(live):
    wait_for(lambda: len(outputs(live, LENSES)) == 1, "one output")
    assert outputs(live, LENSES)[0].locator(".widget-vbox").count()
    assert len(outputs(live, EXPLORER)) == 1
    assert "3 equations" in words(live, EXPLORER)


def test_a_question_opens_below_itself_by_keyboard_and_keeps_the_focus(live):
    cell = live.locator(".jp-CodeCell").nth(LENSES)
    row = cell.locator(".jaxlens-question", has_text="Which line owns the memory peak?")
    question = row.get_by_role("button")
    # One compile, that of the question asked before, gave each its sentence.
    assert "The peak is" in row.inner_text()
    question.focus()
    live.keyboard.press("Enter")
    chart = cell.locator(".widget-vbox .chart-figure")
    chart.wait_for()
    state = "[document.activeElement.textContent, document.activeElement.ariaExpanded]"
    assert live.evaluate(state) == ["Which line owns the memory peak?", "true"]
    live.keyboard.press("Enter")
    wait_for(lambda: live.evaluate(state)[1] == "false", "the answer to close")
    wait_for(lambda: not chart.count(), "the answer to go")


def test_an_explorer_stands_as_it_was(again):
    assert "3 equations" in words(again, EXPLORER)


def test_the_last_answer_stands_in_the_widgets_place(again):
    wait_for(lambda: "flop" in words(again, LENSES), "flop")
    assert "model not found" not in words(again, LENSES)
    assert len(outputs(again, LENSES)) == 1


def test_no_error_is_in_sight(again):
    assert not any("model not found" in words(again, cell) for cell in range(len(CELLS)))


def test_a_jupyter_without_widgets_says_what_to_install_and_keeps_the_answer(again, chromium, lab):
    page = chromium.new_page(viewport={"width": 1280, "height": 1400})
    page.route("**/@jupyter-widgets/**", lambda route: route.abort())
    page.goto(f"{lab.url}/lab/workspaces/bare/tree/{NAME}")
    page.wait_for_selector(".jl-no-widget:visible")
    widget, answer = outputs(page, LENSES)
    assert "install jupyterlab_widgets" in widget.inner_text()
    assert "flop" in answer.inner_text()
    page.close()
