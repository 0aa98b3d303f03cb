"""One expression followed through a live session: what Python is told, and what it tells."""

import json
import urllib.request

import pytest

from tests.support.browsing import PageLog, check_quiet, wait_for, wait_for_outputs

HOSTILE = "</script><img src=x onerror=window.pwned=1>"
PROGRAM = f"""KEY = {HOSTILE!r}

def loss(params, x):
    with jax.named_scope("<img src=x onerror=window.pwned=2>"):
        hidden = jnp.tanh(x @ params[KEY] + params["b"])
    return jnp.sum(hidden ** 2) + jnp.mean(jnp.sin(x))

params = {{KEY: jnp.ones((8, 4)), "b": jnp.zeros(4)}}
x = jnp.ones((2, 8))"""
CELLS = [
    "%load_ext jaxlens\nimport jax, json, jaxlens\nimport jax.numpy as jnp",
    PROGRAM,
    "%%explore -o view\njax.grad(loss)(params, x)",
    "explorer = jaxlens.Explorer(view)\nexplorer",
    "print(json.dumps([explorer.selection, explorer.panes]))",
    'explorer.selection = {"stage": "jaxpr", "id": NODE}',
    "%%compile\njax.grad(loss)(params, x)",
]
SHOWN, SELECTED, SET = 2, 4, 5
NAME = "explore.ipynb"
LINE = "cell 2:5"

# Rows on show of one pane: id, whether it is lit, whether it is pinned.
ROWS = """(root, key) => [...root.querySelectorAll(`details[data-pane=${key}] [data-id]`)]
  .filter(row => row.getClientRects().length)
  .map(row => [row.getAttribute("data-id") || /^\\s*(?:ROOT )?(\\S+)/.exec(row.textContent)[1],
    row.classList.contains("lit"), row.classList.contains("pin")])"""


@pytest.fixture(scope="module")
def live(open_notebook):
    """The page of the notebook that ran, and what was seen while it did."""
    log = PageLog()
    page = open_notebook(NAME, [c.replace("NODE", "'e0'") for c in CELLS], log=log)
    page.set_viewport_size({"width": 1700, "height": 1400})
    page.locator(".jaxlens[data-kernel=live]").nth(2).wait_for()
    return page, log


@pytest.fixture(scope="module")
def saved(live, lab):
    """The notebook file as JupyterLab saves it."""
    live[0].keyboard.press("Control+s")
    return wait_for_outputs(lab.root / NAME, 4)


def cell(page, n):
    return page.locator(".jp-CodeCell").nth(n)


def printed(page, n):
    return json.loads(cell(page, n).locator(".jp-OutputArea-output pre").first.inner_text())


def run_again(page, n):
    """Runs a cell by hand and waits until it is done."""
    prompt = cell(page, n).locator(".jp-InputPrompt").first
    before = prompt.inner_text()
    prompt.click()
    page.keyboard.press("Control+Enter")
    wait_for(lambda: prompt.inner_text() not in (before, "[*]:"), f"cell {n + 1} to run", 30)


def output(page, n=SHOWN):
    found = cell(page, n).locator(".jaxlens")
    found.scroll_into_view_if_needed()
    return found


def beside(root, key):
    """Shows the user's code and one pane beside it."""
    button = "button[data-key={}]".format
    bar = root.locator(".bar")
    shown = bar.locator("[aria-pressed=true]").evaluate_all("all => all.map(b => b.dataset.key)")
    for wanted in ("source", key):
        if wanted not in shown:
            bar.locator(button(wanted)).click(modifiers=["Shift"])
    for other in shown:
        if other not in ("source", key):
            bar.locator(button(other)).click()
    wait_for(lambda: len(rows(root, key)) > 2, f"rows of {key}", 10)


def line_of(root, name):
    return root.locator(f'.source-lines [data-line="{name}"] > :first-child').first


def rows(root, key):
    return root.evaluate(ROWS, key)


def test_what_is_pinned_arrives_in_python_and_escape_lets_go(live):
    page, _ = live
    root = output(page)
    beside(root, "jaxpr")
    line_of(root, LINE).click(position={"x": 120, "y": 6})
    run_again(page, SELECTED)
    selection, panes = printed(page, SELECTED)
    assert selection == {"line": LINE}
    assert panes == ["source", "jaxpr"]
    line_of(output(page), LINE).click(position={"x": 120, "y": 6})
    run_again(page, SELECTED)
    assert printed(page, SELECTED)[0] is None


def test_what_python_selects_is_pinned_on_the_page(live):
    page, _ = live
    beside(output(page), "jaxpr")
    run_again(page, SET)
    root = output(page)
    wait_for(lambda: ["e0", True, True] in rows(root, "jaxpr"), "e0 to be pinned", 10)
    shown = cell(page, 3).locator(".jaxlens")  # the same view, displayed as a widget
    wait_for(lambda: shown.locator(".pin").count() > 0, "e0 to be pinned in the widget", 10)


def test_from_a_costly_line_to_its_machine_code_in_three_clicks(live, lab):
    page, log = live
    root = output(page, len(CELLS) - 1)
    line_of(root, LINE).click(position={"x": 120, "y": 6})
    kernel = root.locator(
        ".source-lines .lit [data-id], .source-lines [data-id].lit", has_text="kernel"
    ).first
    name = kernel.inner_text().split()[1].rstrip(":")
    kernel.click()
    root.locator(".bar [data-key=asm]").click()
    body = root.locator("details[data-pane=asm] .pane-body")
    code = body.locator(f'[data-id="{name}"].lit')
    wait_for(lambda: code.count() > 3, f"the code of {name}", 10)
    view = body.bounding_box()
    assert view["y"] - 4 <= code.first.bounding_box()["y"] < view["y"] + view["height"]
    check_quiet(page, log, lab.url)


def test_a_saved_notebook_holds_no_widget(saved):
    assert "widgets" not in saved.metadata
    held = [
        set(o.data) for c in saved.cells[:3] for o in c.outputs if o.output_type == "display_data"
    ]
    assert held == [{"text/plain", "text/html"}]


def test_with_the_kernel_dead_it_goes_on(live, lab):
    page, _ = live
    (session,) = [s for s in lab.get("/api/sessions") if s["path"] == NAME]
    request = urllib.request.Request(f"{lab.url}/api/sessions/{session['id']}", method="DELETE")
    urllib.request.urlopen(request).close()
    root = output(page)
    beside(root, "optimized")
    line_of(root, LINE).hover(position={"x": 120, "y": 6})
    wait_for(lambda: sum(lit for _, lit, _ in rows(root, "optimized")), "rows to light", 5)
    assert page.evaluate("window.pwned") is None
