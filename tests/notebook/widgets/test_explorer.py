"""The comm between a kernel and its outputs: when it opens, its answers, when it closes."""

from types import SimpleNamespace
from typing import Any

import pytest
import traitlets

import jaxlens
from jaxlens.notebook.widgets.comm import OutputComms, cell_of

F = "import jaxlens\nimport jax.numpy as jnp\ndef f(x): return jnp.sin(x).sum()\nx = jnp.ones(3)"


class Front:
    """What a kernel knows of the front end that sent the running request."""

    def __init__(self):
        self.parent: Any = {"metadata": {"cellId": "a"}}

    def get_parent(self):
        return self.parent


@pytest.fixture
def view(run, shell):
    assert run(F).ok
    return jaxlens.jaxpr(shell.user_ns["f"], shell.user_ns["x"])


@pytest.fixture
def lines(view):
    shell = SimpleNamespace(kernel=Front(), execution_count=1)
    opened = OutputComms(shell)
    yield opened
    opened.close()


def open_explorers(lines, cell, *views):
    """A cell shows some views; gives the Explorers that are open after."""
    lines._shell.kernel.parent = {"metadata": {"cellId": cell}}
    lines._shell.execution_count += 1
    for view in views:
        assert set(lines.bundle(view)) == {"text/plain", "text/html"}
    lines.cell_done()
    return [explorer for _, held in lines._open.values() for explorer in held]


@pytest.mark.parametrize(
    "parent", [None, {}, {"metadata": {}}, {"metadata": {"cellId": None}}, {"metadata": {"x": 1}}]
)
def test_without_a_cells_name_nothing_opens(lines, view, parent):
    lines._shell.kernel.parent = parent
    lines.bundle(view)
    lines.cell_done()
    assert not lines._open


def test_a_terminal_has_no_cells():
    assert cell_of(SimpleNamespace()) == ""
    assert cell_of(SimpleNamespace(kernel=None)) == ""


def test_a_view_is_served_once_its_cell_is_done(lines, view):
    (explorer,) = open_explorers(lines, "a", view)
    assert f"data-key={explorer.key} " in view.html()


def test_a_cell_that_runs_again_closes_what_it_had(lines, view):
    (first,) = open_explorers(lines, "a", view)
    (second,) = open_explorers(lines, "a", view)
    assert second is not first
    assert first.comm is None
    assert open_explorers(lines, "a") == []
    assert second.comm is None


def test_the_number_of_lines_is_bounded(lines, view):
    for cell in "abcdefghijklmnop":
        explorers = open_explorers(lines, cell, view)
    assert len(explorers) == 8
    assert list(lines._open) == list("ijklmnop")
    assert len(open_explorers(lines, "q", *[view] * 20)) == 8


def test_closing_leaves_no_widget(lines, view):
    from ipywidgets.widgets.widget import _instances

    before = len(_instances)
    explorers = open_explorers(lines, "a", view, view)
    assert len(_instances) > before
    lines.close()
    assert all(explorer.comm is None for explorer in explorers)
    assert len(_instances) == before


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"stage": "hlo", "id": "add.1"}, {"stage": "hlo", "id": "add.1"}),
        ({"line": "cell 3:4"}, {"line": "cell 3:4"}),
        ({}, None),
        (None, None),
    ],
)
def test_a_selection(view, given, kept):
    explorer = jaxlens.Explorer(view)
    seen: list[Any] = []
    explorer.selection = {"line": "else"}
    explorer.observe(lambda change: seen.append(change.new), "selection")
    explorer.selection = given
    assert seen == [kept]
    explorer.close()


def test_a_selection_of_another_form_is_told(view):
    explorer = jaxlens.Explorer(view)
    with pytest.raises(traitlets.TraitError, match="a selection is"):
        explorer.selection = {"id": "e1"}
    explorer.close()


def answered(explorer, message):
    sent: list[Any] = []
    explorer.send = lambda content, buffers=None: sent.append(content)
    explorer._hear(explorer, message, [])
    return sent


def test_every_question_is_answered(view, monkeypatch):
    explorer = jaxlens.Explorer(view)
    (said,) = answered(explorer, {"ask": 1, "what": {"html": True}})
    assert said == {"answer": 1, "ok": view.html()}
    (said,) = answered(explorer, {"ask": 2, "what": {"lines": {"listing": 0, "from": 0, "to": 3}}})
    assert said["answer"] == 2
    assert "sin" in said["ok"]["rows"]
    for what in (None, 3, {}, {"nope": 1}):
        (said,) = answered(explorer, {"ask": 3, "what": what})
        assert said["answer"] == 3
        assert "no question" in said["error"]
    assert answered(explorer, "noise") == []
    monkeypatch.setattr("jaxlens.notebook.widgets.explorer.answer", lambda *_: 1 / 0)
    (said,) = answered(explorer, {"ask": 4, "what": {"lines": 1}})
    assert said == {"answer": 4, "error": "ZeroDivisionError: division by zero"}
    explorer.close()


def test_marimo_gets_the_widget_with_the_html_in_it(view):
    shown = view._display_()
    assert isinstance(shown, jaxlens.Explorer)
    assert shown.html == view.html()
    assert shown.get_state()["html"] == view.html()
    own = jaxlens.Explorer(view)
    assert own.html == ""  # a page that has the output needs no copy of it
    shown.close()
    own.close()


def test_what_nbclient_writes_holds_no_widget(tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    code = ["%load_ext jaxlens", F, "%jaxpr f(x)", "jaxlens.jaxpr(f, x)"]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in code])
    nbclient.NotebookClient(book, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert "widgets" not in book.metadata
    shown = [set(output.data) for cell in book.cells for output in cell.outputs]
    assert shown == [{"text/plain", "text/html"}] * 2
