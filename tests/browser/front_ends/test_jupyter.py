"""JupyterLab, Notebook and nbconvert, each of which is there: what works in it."""

import subprocess
import sys
from importlib.metadata import version

import nbformat
import pytest

from tests.support.browser.front_ends import check, seen
from tests.support.browsing import wait_for_outputs

NAME = "front_ends.ipynb"
CELLS = [
    """%load_ext jaxlens
import jax
import jax.numpy as jnp

def step(w, x):
    h = jnp.tanh(x @ w)
    return (h * h).sum()""",
    "%%jaxpr\njax.grad(step)(jnp.ones((16, 32)), jnp.ones((8, 16)))",
]


def major(package):
    return version(package).partition(".")[0]


@pytest.fixture(scope="module")
def live(open_notebook):
    return open_notebook(NAME, CELLS)


@pytest.fixture(scope="module")
def saved(live, lab):
    """The notebook file with the outputs in it, as JupyterLab saves it."""
    live.keyboard.press("Control+s")
    wait_for_outputs(lab.root / NAME, 1)
    return lab.root / NAME


def test_jupyterlab(live):
    found = seen(live.locator(".jaxlens"))
    check("JupyterLab", major("jupyterlab"), found, "a cell run in it")


def test_jupyterlab_that_does_not_trust_the_notebook(saved, chromium, lab):
    book = nbformat.read(saved, as_version=4)
    for cell in book.cells:
        cell.metadata.pop("trusted", None)
        cell.source += "\n"  # the signature of the trusted one does not fit
    nbformat.write(book, lab.root / "cloned.ipynb")
    page = chromium.new_page(viewport={"width": 1280, "height": 1400})
    page.goto(f"{lab.url}/lab/workspaces/cloned/tree/cloned.ipynb")
    found = seen(page.locator(".jaxlens"))
    page.close()
    check("JupyterLab, not trusted", major("jupyterlab"), found, "a fresh clone opened in it")


def test_notebook(saved, chromium, lab):
    page = chromium.new_page(viewport={"width": 1280, "height": 1400})
    page.goto(f"{lab.url}/notebooks/{NAME}")
    page.wait_for_selector(".jaxlens .bar")
    found = seen(page.locator(".jaxlens"))
    page.close()
    check("Jupyter Notebook", major("notebook"), found, "the notebook opened in it")


def test_nbconvert(saved, chromium):
    command = [sys.executable, "-m", "nbconvert", "--log-level=WARN", "--to=html", saved]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    page = chromium.new_page(viewport={"width": 1280, "height": 1400})
    page.route("http*://**", lambda route: route.abort())  # the page asks for MathJax
    page.goto(saved.with_suffix(".html").as_uri())
    page.wait_for_selector(".jaxlens .bar")
    found = seen(page.locator(".jaxlens"))
    page.close()
    check("nbconvert, HTML", major("nbconvert"), found, "the notebook converted, without a network")
