"""The tape in a browser: forwards and backwards say the same, by mouse and by keyboard."""

import jax
import jax.numpy as jnp
import pytest

import jaxlens

pytestmark = pytest.mark.browser


def model(ws, x):
    for w in ws:
        x = jnp.tanh(x @ w)
    return x.sum()


@pytest.fixture
def player(saved):
    view = jaxlens.tape(jax.grad(model), [jnp.ones((3, 3))] * 2, jnp.ones(3))
    return saved(view.html(), ready=".line-trace .trace-player")


def shown(page):
    """What the player says now."""
    return tuple(
        page.inner_text(f".line-trace {part}") for part in (".now", ".side table", ".side > div")
    )


def test_back_says_what_forth_said(player):
    seen = [shown(player)]
    for _ in range(8):
        player.click("button[title='One step on']")
        seen.append(shown(player))
    assert seen[-1][0].startswith("step 9 of 9")
    assert len(set(seen)) == len(seen)
    for before in reversed(seen[:-1]):
        player.click("button[title='One step back']")
        assert shown(player) == before


def test_a_step_has_variables_and_equations_and_the_slider_the_keyboard(player):
    player.click("button[title='Last step']")
    assert "JAX, when the function is done" in shown(player)[0]
    player.click("button[title='First step']")
    said, variables, recorded = shown(player)
    assert "start of model" in said
    assert "tracer f32[3]" in variables
    assert recorded == "no equation yet"
    for _ in range(2):
        player.click("button[title='One step on']")
    assert "dot_general" in shown(player)[2]
    current = player.inner_text(".line-trace [aria-current]")
    assert "x @ w" in current
    assert "pass 1 of the loop" in current
    player.wait_for_selector("[data-pane=jaxpr] .pin, [data-pane=jaxpr] .lit")
    player.focus(".line-trace input")
    player.keyboard.press("End")
    assert "when the function is done" in shown(player)[0]
    player.keyboard.press("ArrowLeft")
    assert "end of model" in shown(player)[0]


def test_all_steps_stand_there_without_scripts(new_page):
    view = jaxlens.tape(model, [jnp.ones((3, 3))], jnp.ones(3))
    page = new_page(java_script_enabled=False)
    page.set_content(view.html())
    assert "x = jnp.tanh(x @ w)" in page.inner_text(".line-trace table")
