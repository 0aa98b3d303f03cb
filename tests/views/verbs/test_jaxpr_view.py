"""`document` for real calls: the whole text, and what of it stays when the program changes."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.render.document import Fold, GraphPane, Listing, SourcePane, Tabs
from jaxlens.render.text.document_text import text
from jaxlens.viewer.panes import OPTIONS
from tests.support.documents import approved
from tests.support.documents import jaxpr as document

pytestmark = pytest.mark.backend

TABLE = np.ones((500, 1000), "float32")


def predict(params, x):
    hidden = x @ params["w"] + params["b"]
    return jax.nn.relu(hidden)


def run(params, xs):
    def body(total, x):
        return total + predict(params, x).sum(), x.max()

    return jax.lax.scan(body, 0.0, xs)


PARAMS = {
    "w": jax.ShapeDtypeStruct((8, 4), "float32"),
    "b": jax.ShapeDtypeStruct((4,), "float32"),
}


def captured():
    return jaxlens.capture(predict, PARAMS, jax.ShapeDtypeStruct((2, 8), "float32"))


def blocks_of(made, kind):
    tabs = next(b for b in made.blocks if isinstance(b, Tabs))
    return [block for tab in tabs.tabs for block in tab.blocks if isinstance(block, kind)]


def test_the_text_of_a_call():
    """Without numbers of lines, which an edit of this file moves."""
    shown = re.sub(r" +# test_jaxpr_view.py:\d+", "  # LINE", text(document(captured()), width=90))
    approved("views/jaxpr", shown.partition("\n\nAlso here")[0])


def test_the_lines_of_the_functions_are_shown_with_what_they_became():
    (pane,) = blocks_of(document(captured()), SourcePane)
    assert pane.title == "test_jaxpr_view.py"
    assert [line.text for line in pane.lines] == [
        "def predict(params, x):",
        '    hidden = x @ params["w"] + params["b"]',
        "    return jax.nn.relu(hidden)",
    ]
    assert [line.note for line in pane.lines] == ["", "3 eqns", "3 eqns"]
    assert [line.share for line in pane.lines] == [None, 0.5, 0.5]
    assert [len(line.under) for line in pane.lines] == [0, 3, 3]
    assert pane.lines[1].line == f"test_jaxpr_view.py:{pane.lines[1].number}"


def test_a_call_counts_what_it_reaches():
    cap = jaxlens.capture(run, PARAMS, jax.ShapeDtypeStruct((5, 2, 8), "float32"))
    (pane,) = blocks_of(document(cap), SourcePane)
    notes = {line.text.strip(): f"{line.note} ({line.more})" for line in pane.lines}
    total = sum(1 for _ in cap.jaxpr.module.nodes())
    assert notes["return jax.lax.scan(body, 0.0, xs)"] == f"1 eqn ({total - 1} more in calls)"
    assert notes["def predict(params, x):"] == " ()"
    assert "in calls" in notes["return total + predict(params, x).sum(), x.max()"]


def test_options_choose_the_pane():
    cap = captured()
    alone = document(cap, OPTIONS["jaxpr"](text=True))
    assert [type(b) for b in alone.blocks[1:]] == [Listing]
    graph = document(cap, OPTIONS["jaxpr"](graph=True))
    assert [isinstance(b, GraphPane) for b in graph.blocks[1:]] == [True]
    both = document(cap, OPTIONS["jaxpr"](text=True, graph=True))
    assert len(blocks_of(both, Listing)) == len(blocks_of(both, GraphPane)) == 1


def test_constants_are_named_and_large_ones_come_with_advice():
    cap = jaxlens.capture(lambda x: (x * TABLE).sum(), jnp.ones(1000))
    said = text(document(cap))
    assert "1 array captured as a constant, 2 MB" in said
    assert "Passed as arguments" in said


def test_shared_bodies_are_counted_once():
    inner = jax.jit(lambda v: jnp.sin(v) + 1)
    said = text(document(jaxlens.capture(lambda x: inner(inner(x)), jnp.ones(3))))
    assert "4 equations" in said


def test_a_program_without_equations_and_without_inputs():
    said = text(document(jaxlens.capture(lambda: 1.0)))
    assert "0 equations." in said
    assert "without array inputs" in said


def test_library_lines_come_folded_behind_the_user_s(tmp_path, monkeypatch):
    package = tmp_path / "site-packages" / "somelib"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "import jax.numpy as jnp\n\n\ndef twice(x):\n    return jnp.sin(x) * 2\n"
    )
    monkeypatch.syspath_prepend(str(package.parent))
    import somelib

    cap = jaxlens.capture(lambda x: somelib.twice(x) + 1, jnp.ones(3))
    shown = document(cap)
    (mine,) = blocks_of(shown, SourcePane)
    assert [line.note for line in mine.lines if line.note] == ["3 eqns"]
    (fold,) = blocks_of(shown, Fold)
    assert fold.title == "in libraries: 1 file"
    (library,) = fold.blocks
    assert isinstance(library, SourcePane)
    assert library.title == "somelib/__init__.py"
    assert [line.note for line in library.lines if line.note] == ["2 eqns"]


def test_the_backward_pass_is_counted_at_the_forward_line():
    cap = jaxlens.capture(jax.grad(lambda x: jnp.tanh(x).sum()), jnp.ones(3))
    (pane,) = blocks_of(document(cap), SourcePane)
    (more,) = [line.more for line in pane.lines if line.note]
    backward = sum("transpose(" in node.scope for node in cap.jaxpr.module.nodes())
    assert backward
    assert more == f"{backward} backward"
    (listing,) = blocks_of(document(cap), Listing)
    assert any(
        p.kind == "fold" and "transpose(" in p.text for line in listing.lines for p in line.pieces
    )


def test_text_draws_no_graph(monkeypatch):
    def never(*args, **options):
        raise AssertionError("text asked for the drawing")

    monkeypatch.setattr("jaxlens.views.figures.jaxpr.figure", never)
    view = jaxlens.jaxpr(lambda x: jnp.tanh(x) * 2.0, jnp.ones(4))
    assert "tanh" in str(view)
    with pytest.raises(AssertionError, match="asked for the drawing"):
        view.html()


def test_a_late_drawing_is_a_pane_like_any_other():
    view = jaxlens.jaxpr(lambda x: jnp.tanh(x) * 2.0, jnp.ones(4))
    tabs = next(block for block in view.json()["blocks"] if block["type"] == "Tabs")
    (pane,) = tabs["tabs"][-1]["blocks"]
    assert pane["type"] == "GraphPane"
    assert pane["alt"] == "Graph of <lambda>: 4 boxes at the top level."
    assert [panel["type"] for panel in pane["figure"]["panels"]] == ["Panel"]


def test_a_saved_program_with_an_empty_body_is_shown(tmp_path):
    pallas = pytest.importorskip("jax.experimental.pallas")

    def double(x_ref, out_ref):
        out_ref[...] = 2.0 * x_ref[...]

    def doubled(x):  # the index maps of a kernel without a grid are jaxprs of no equation
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pallas.pallas_call(double, out_shape=shape, interpret=True)(x)

    live = jaxlens.capture(doubled, jnp.ones((8, 128)))
    live.save(tmp_path / "doubled.jaxlens")
    saved = jaxlens.load(tmp_path / "doubled.jaxlens")
    assert str(jaxlens.jaxpr(saved)) == str(jaxlens.jaxpr(live))
