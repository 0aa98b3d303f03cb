"""A notebook in JupyterLab as its reader meets it: live, saved, untrusted, exported."""

import json
import os
import subprocess
import sys
from importlib.metadata import version

import nbformat
import pytest

from tests.support.browser.front_ends import check, seen
from tests.support.browsing import PageLog, check_quiet, wait_for, wait_for_outputs

HOSTILE = "</script><img src=x onerror=window.pwned=1>"
CELLS = [
    "%load_ext jaxlens\nimport jax\nimport jax.numpy as jnp",
    f"""KEY = {HOSTILE!r}

def predict(params, x):
    with jax.named_scope("<img src=x onerror=window.pwned=2>"):
        return 2 * jax.nn.relu(x @ params[KEY] + params["b"])

def loss(params, x):
    return jax.lax.scan(lambda c, r: (c + predict(params, r).sum(), c), 0.0, x)[0]

params = {{KEY: jnp.ones((8, 4)), "b": jnp.zeros(4)}}
x = jnp.ones((3, 2, 8))""",
    "%%jaxpr\nloss(params, x)",
    "%%hlo\npredict(params, x[0])",
    "%%compile\npredict(params, x[0])",
]
NAME = "live.ipynb"


@pytest.fixture(scope="module")
def live(open_notebook):
    """The page of the notebook that ran, and what was seen while it did."""
    log = PageLog()
    return open_notebook(NAME, CELLS, log=log), log


@pytest.fixture(scope="module")
def saved(live, lab):
    """The notebook file with the outputs in it, as JupyterLab saves it."""
    live[0].keyboard.press("Control+s")
    return wait_for_outputs(lab.root / NAME, 3)


def outputs_of(page):
    outputs = page.locator(".jaxlens")
    outputs.nth(2).wait_for()
    assert outputs.count() == 3
    return [outputs.nth(n) for n in range(3)]


def pane(output, key):
    """Shows a pane, and gives it."""
    button = output.locator(f".bar button[data-key={key}]")
    if button.get_attribute("aria-pressed") != "true":
        button.click()
    found = output.locator(f"details[data-pane={key}]")
    assert found.locator(".pane-body").is_visible()
    return found


def check_panes(page, outputs):
    for output in outputs:
        buttons = output.locator(".bar.chain > button")
        made = output.locator(".bar [data-key]")
        keys = made.evaluate_all("all => all.map(button => button.dataset.key)")
        assert len(keys) >= 3
        rows = len({round(button.bounding_box()["y"]) for button in buttons.all()})
        assert rows <= (2 if page.viewport_size["width"] > 1000 else 3)
        for key in [*keys, keys[0]]:
            pane(output, key)
        wait_for(lambda bar=buttons: goes_on(page, bar), "an arrow key to go along the bar", 10)


def goes_on(page, buttons):
    """Whether an arrow key moves the focus; a page that is still loading may take it away."""
    buttons.nth(0).focus()
    page.keyboard.press("ArrowRight")
    return buttons.nth(1).evaluate("e => e === document.activeElement")


def check_source_line(output):
    line = pane(output, "source").locator("details[data-line]", has_text="jax.nn.relu").first
    under = line.locator("[data-id]").first
    assert not under.is_visible()
    line.locator("summary").click(position={"x": 8, "y": 8})
    assert under.is_visible()
    line.locator("summary").click(position={"x": 8, "y": 8})
    assert not under.is_visible()


def check_graph(page, output):
    drawing = pane(output, "graph").locator(".jaxlens-figure")
    assert "script" in drawing.text_content()
    closed = drawing.locator("[aria-expanded=false]").first
    path = closed.get_attribute("data-path")
    box = drawing.locator(f'[data-path="{path}"]')
    inside = drawing.locator(f'[data-path^="{path}."]')
    assert inside.count() == 0
    box.focus()
    page.keyboard.press("Enter")
    assert box.get_attribute("aria-expanded") == "true"
    assert inside.count() > 0
    page.keyboard.press("Enter")
    assert box.get_attribute("aria-expanded") == "false"
    for key in ("ArrowUp", "ArrowDown"):  # keys of the notebook, too: the drawing has them
        last = page.evaluate("document.activeElement.dataset.path")
        page.keyboard.press(key)
        now = page.evaluate("document.activeElement.dataset.path")
        assert now
        assert now != last


def check_folds(output):
    shown = pane(output, "stablehlo")
    assert "tensor<8x4xf32>" in shown.inner_text()
    assert "mhlo.num_partitions" not in shown.inner_text()
    toggle = shown.get_by_label("metadata, layouts, long types")
    toggle.check()
    assert "mhlo.num_partitions = 1 : i32" in shown.inner_text()
    toggle.uncheck()
    assert "mhlo.num_partitions" not in shown.inner_text()


UNNAMED = """all => all.filter(e => e.checkVisibility() && !(e.ariaLabel || e.title
  || e.textContent.trim() || e.labels?.[0]?.textContent.trim()))
  .map(e => e.outerHTML.slice(0, 80))"""


def check_names(outputs):
    """Whatever can have the focus says what it is."""
    for output in outputs:
        focusable = output.locator("summary, button, input, [tabindex], [role]")
        assert focusable.evaluate_all(UNNAMED) == []
        assert output.locator("img:not([alt])").count() == 0


def check_all(page):
    jaxpr, hlo, compiled = outputs_of(page)
    assert (
        jaxpr.locator(".title-line")
        .inner_text()
        .startswith(f"loss(params, x) with params['{HOSTILE}']")
    )
    check_names([jaxpr, hlo, compiled])
    check_panes(page, [jaxpr, hlo, compiled])
    check_source_line(jaxpr)
    check_graph(page, jaxpr)
    check_folds(hlo)


def check_row(page, name, package, how):
    """The row of a front end in the table of what works where."""
    major = version(package).partition(".")[0]
    check(name, major, seen(outputs_of(page)[0]), how)


def test_everything_works_while_the_kernel_lives(live, lab):
    page, log = live
    check_all(page)
    check_row(page, "JupyterLab", "jupyterlab", "a cell run in it")
    check_quiet(page, log, lab.url)


def test_everything_works_when_opened_again_in_the_dark(saved, open_notebook, lab):
    log = PageLog()
    page = open_notebook(NAME, dark=True, log=log)
    output = outputs_of(page)[0]
    assert output.evaluate("e => getComputedStyle(e).colorScheme") == "dark"
    check_all(page)
    check_quiet(page, log, lab.url)


def test_untrusted_it_shows_text_picture_and_colours(saved, open_notebook, lab):
    book = nbformat.from_dict(json.loads(json.dumps(saved)))
    book.metadata["title"] = "not what this server signed"
    nbformat.write(book, lab.root / "untrusted-live.ipynb")
    log = PageLog()
    page = open_notebook("untrusted-live.ipynb", log=log)
    jaxpr, hlo, _ = outputs_of(page)
    assert page.locator("[data-jl], .jaxlens script, .jaxlens-drawing[data-live]").count() == 0
    assert HOSTILE in jaxpr.inner_text()
    tinted = jaxpr.locator(".source-lines summary", has_text="jax.nn.relu").first
    assert tinted.evaluate("e => getComputedStyle(e).backgroundColor") != "rgba(0, 0, 0, 0)"
    check_row(page, "JupyterLab, not trusted", "jupyterlab", "a fresh clone opened in it")
    hlo.locator("summary", has_text="StableHLO").click()
    assert "stablehlo.dot_general" in hlo.inner_text()
    check_quiet(page, log, lab.url)


def test_exported_it_works_from_a_file_without_network(saved, chromium, lab):
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "live.ipynb"]
    bare = [f"--HTMLExporter.{name}_url=" for name in ("mathjax", "require_js", "mermaid_js")]
    subprocess.run(
        [*command, *bare], cwd=lab.root, check=True, capture_output=True, env={**os.environ}
    )
    log = PageLog()
    page = chromium.new_page(viewport={"width": 700, "height": 900})
    log.follow(page)
    address = (lab.root / "live.html").as_uri()
    page.goto(address)
    check_all(page)
    assert page.locator(".jaxlens").evaluate_all(
        "all => all.every(e => e.scrollWidth <= innerWidth)"
    )
    page.set_viewport_size({"width": 1280, "height": 1400})
    how = "the notebook converted, without a network"
    check_row(page, "nbconvert, HTML", "nbconvert", how)
    check_quiet(page, log, address)
    page.close()


def test_it_works_in_notebook_7(saved, chromium, lab):
    pytest.importorskip("notebook", minversion="7")
    log = PageLog()
    page = chromium.new_page(viewport={"width": 1280, "height": 1400})
    log.follow(page)
    page.goto(f"{lab.url}/notebooks/{NAME}")
    page.locator(".jaxlens[data-kernel=live]").nth(2).wait_for()  # it joins the kernel again
    check_all(page)
    check_row(page, "Jupyter Notebook", "notebook", "the notebook opened in it")
    log.errors.clear()  # it logs errors of its own with any notebook
    check_quiet(page, log, lab.url)
    page.close()
