"""A marimo notebook with the verbs' views, in Chromium.

marimo draws HTML and runs no script in it, and gives each widget a shadow tree. A view offers its
widget there (`View._display_`), which shows the output in a frame (`notebook/explorer.js`).
"""

import os
import sys
from importlib.metadata import version
from urllib.request import urlopen

import pytest

from tests.support.browser.front_ends import check, seen
from tests.support.browsing import running, wait_for
from tests.support.paths import environment

NOTEBOOK = """
import marimo

app = marimo.App(width="full")


@app.cell
def _():
    import jax
    import jax.numpy as jnp
    import jaxlens

    def step(w, x):
        h = jnp.tanh(x @ w)
        return (h * h).sum()

    w, x = jnp.ones((16, 32)), jnp.ones((8, 16))
    explorer = jaxlens.Explorer(jaxlens.compile(step, w, x))
    return explorer, jax, jaxlens, step, w, x


@app.cell
def _(jax, jaxlens, step, w, x):
    jaxlens.jaxpr(jax.grad(step), w, x)
    return


@app.cell
def _(explorer):
    explorer
    return


if __name__ == "__main__":
    app.run()
"""


@pytest.fixture(scope="module")
def marimo(chromium, tmp_path_factory, free_port):
    """The page of a notebook that marimo runs."""
    pytest.importorskip("marimo") if not os.environ.get("JAXLENS_REQUIRE_BROWSER") else None
    folder = tmp_path_factory.mktemp("marimo")
    (folder / "book.py").write_text(NOTEBOOK.lstrip())
    command = [sys.executable, "-m", "marimo", "run", "book.py", "--headless", "--no-token"]
    command += [f"--port={free_port}", "--host=127.0.0.1"]
    home = {name: str(folder) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
    env = environment(**home, JAX_PLATFORMS="cpu", MARIMO_SKIP_UPDATE_CHECK="1")
    errors = []
    page = chromium.new_page(viewport={"width": 1280, "height": 1400})
    page.on("pageerror", lambda error: errors.append(str(error)))
    with running(command, folder, env):
        address = f"http://127.0.0.1:{free_port}"
        # The log names the address before the port is open.
        wait_for(lambda: urlopen(address).close() or True, "marimo")
        page.goto(address)
        wait_for(lambda: len(outputs(page)) == 2, "the cells to run", 120)
        yield page
        page.close()
    assert not errors


def outputs(page):
    """The frames of the outputs, from top to bottom."""
    page.evaluate("0")  # while it waits for an answer, playwright hears of frames
    frames = [frame for frame in page.frames if frame.url == "about:srcdoc"]
    ready = [f for f in frames if f.locator(".jaxlens[data-kernel=live] .bar").count()]
    return sorted(ready, key=lambda frame: frame.frame_element().bounding_box()["y"])


def test_panes_links_and_search_work_in_marimo(marimo):
    found = seen(outputs(marimo)[0].locator(".jaxlens"))
    how = "a notebook run by marimo; magics are IPython's, so call the verbs"
    check("marimo", ".".join(version("marimo").split(".")[:2]), found, how)


def test_a_frame_is_as_high_as_its_output(marimo):
    for frame in outputs(marimo):
        inner = frame.evaluate("document.documentElement.scrollHeight")
        place = frame.frame_element()
        wait_for(lambda p=place, h=inner: abs(p.bounding_box()["height"] - h) < 2, "the height", 10)


def test_lines_are_those_of_the_file(marimo):
    text = outputs(marimo)[0].locator("[data-pane=source]").inner_text()
    assert "book.py" in text
    number = NOTEBOOK.lstrip()[: NOTEBOOK.lstrip().index("h = jnp")].count("\n") + 1
    line = outputs(marimo)[0].locator("[data-pane=source] :text('h = jnp.tanh')").first
    assert str(number) in line.inner_text()
    assert "eqns" in line.inner_text()


def test_a_theme_that_changes_reaches_the_frame(marimo):
    frame = outputs(marimo)[0]
    scheme = "getComputedStyle(document.querySelector('.jaxlens')).colorScheme"
    assert frame.evaluate(scheme) == "light"
    marimo.evaluate("document.body.style.colorScheme = 'dark'")
    wait_for(lambda: frame.evaluate(scheme) == "dark", "the dark theme", 10)
    marimo.evaluate("document.body.style.colorScheme = ''")
    wait_for(lambda: frame.evaluate(scheme) == "light", "the light theme", 10)


def test_the_kernel_answers_the_viewer(marimo):
    """`compile` of an Explorer: the code of a kernel comes from Python when it is asked for."""
    frame = outputs(marimo)[1]
    lines = frame.evaluate(
        "document.querySelector('.jaxlens').jaxlens.fetch({row: {listing: 0, id: 'nowhere'}})"
        ".then(String, (why) => why.message)"
    )
    assert "no line of 'nowhere' in the listing" in lines
