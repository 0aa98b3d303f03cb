"""Widgets keep their last answer as HTML and text in their output."""

import json

from IPython.utils.capture import capture_output

VIEW = "application/vnd.jupyter.widget-view+json"
MADE = """
import jax, jax.numpy as jnp, jaxlens
def loss(w, x):
    return jnp.tanh(x @ w).sum()
w, x = jnp.ones((4, 2)), jnp.ones((8, 4))
"""
ASKED = "widget = jaxlens.Lenses(loss, w, x)\nwidget.ask('cost')\nwidget"


class Kernel:
    """A front end that names its cells, as Jupyter's do."""

    def get_parent(self):
        return {"metadata": {"cellId": "1"}}


def shown(shell, code):
    with capture_output() as captured:
        done = shell.run_cell(code)
    assert done.success
    return [output.data for output in captured.outputs]


def test_where_nobody_is_connected_one_bundle_has_all(run, shell):
    assert run(MADE).ok
    (data,) = shown(shell, ASKED)
    assert VIEW in data
    assert "<div class=jaxlens " in data["text/html"]
    assert "loss" in data["text/plain"]


def test_in_a_live_front_end_the_answer_is_an_output_of_its_own(run, shell, monkeypatch):
    assert run(MADE).ok
    monkeypatch.setattr(shell, "kernel", Kernel(), raising=False)
    widget, beside = shown(shell, ASKED)
    assert VIEW in widget
    assert VIEW not in beside
    assert "<div class=jl-kept>" in beside["text/html"]
    assert "loss" in beside["text/plain"]


def test_the_answer_is_written_anew_after_each_question(run, shell, monkeypatch):
    assert run(MADE).ok
    monkeypatch.setattr(shell, "kernel", Kernel(), raising=False)
    _, beside = shown(shell, ASKED)
    assert "Memory by line" not in beside["text/html"]
    (later,) = shown(shell, "widget.ask('memory')")
    assert "The peak is" in later["text/html"]
    assert "The peak is" in later["text/plain"]


def test_before_a_question_there_is_nothing_to_keep(run, shell, monkeypatch):
    assert run(MADE).ok
    monkeypatch.setattr(shell, "kernel", Kernel(), raising=False)
    _, beside = shown(shell, "jaxlens.Lenses(loss, w, x)")
    assert "Nothing was asked of it yet." in beside["text/html"]


def test_an_explorer_is_html_that_it_serves(run, shell):
    assert run(MADE).ok
    (data,) = shown(
        shell, "explorer = jaxlens.Explorer(jaxlens.jaxpr(loss, w, x))\ndisplay(explorer)"
    )
    assert VIEW not in json.dumps(list(data))
    assert f"data-key={shell.user_ns['explorer'].key}" in data["text/html"]
    assert data["text/plain"].startswith("loss(w, x)")
