"""The key player in JupyterLab: what is typed is looked up, and `%%recompiles` shows its answer."""

import pytest

CELLS = [
    "%load_ext jaxlens\nimport jax, numpy as np, functools, jaxlens",
    """@functools.partial(jax.jit, static_argnames="n")
def step(w, x, n=1):
    return (x @ w).sum() * n
w, x = np.ones((4, 2), np.float32), np.ones((8, 4), np.float32)""",
    "%%recompiles\nfor size in (8, 7, 6):\n    step(w, x[:size])",
    "jaxlens.KeyPlayer(step, w, x, n=1)",
]


@pytest.fixture(scope="module")
def page(open_notebook):
    return open_notebook("keys.ipynb", CELLS)


def test_the_answer_is_shown(page):
    output = page.locator(".jaxlens").first
    output.wait_for()
    assert "step compiled 3 times in this cell; 2 of them because x's first axis changed" in (
        output.inner_text()
    )


def test_what_is_typed_is_looked_up(page):
    status = page.locator("[role=status]").filter(has_text="Cache").first
    status.wait_for()
    assert "n: static value 1, was not given (so 1)" in status.inner_text()
    box = page.locator(".jp-OutputArea-output input[type=text]").nth(1)
    box.fill("f32[5,4]")
    box.press("Enter")
    page.get_by_text("x: f32[5,4], was f32[6,4]", exact=True).wait_for()
    box.fill("f33")
    box.press("Enter")
    page.locator("[role=alert]").filter(has_text="f33").wait_for()
