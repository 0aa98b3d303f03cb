"""axe finds nothing in an output: names, roles, contrast, headings of tables."""

from importlib.resources import files

import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.course import progress_file

# axe's rules for whole pages (landmarks, a heading, a language) are the notebook's business.
AXE = "axe.run(document.querySelector('.jaxlens')).then((result) => result.violations)"


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


def test_an_answer_that_is_wrong(saved):
    def layer(w, b, x):
        return jnp.where(x @ w + b > 0, x @ w + b, 0.0)

    outcome = jaxlens.course.check("1.1", {"layer": layer})
    assert not outcome.solved
    assert in_all_panes(saved(outcome.html())) == []
