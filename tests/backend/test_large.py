"""Output size and lazy reading for an unrolled train step: folds, listings, nodes read."""

import re

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.ir.columns import columns
from jaxlens.ir.graph import Module, owner
from jaxlens.links.call_stacks import equation_transforms
from jaxlens.render.document import SourcePane, Tabs
from jaxlens.render.graph.figure import open_paths
from jaxlens.render.html.payload import Budget, web_data, web_html
from jaxlens.views.figures.jaxpr import figure
from jaxlens.views.links import weave
from jaxlens.views.listings import jaxpr as jaxpr_lines
from tests.support.programs import gpt_step, straight_line

pytestmark = pytest.mark.backend

LAYERS = 6


@pytest.fixture(scope="module")
def capture():
    f, args = gpt_step(LAYERS, width=16, length=8, vocab=32, biases=True)
    return jaxlens.capture(f, *args)


@pytest.fixture(scope="module")
def drawn(capture):
    names = [leaf.name for leaf in capture.program.inputs]
    outputs = [leaf.name for leaf in capture.outputs]
    return figure(capture.jaxpr.module, depth=0, inputs=names, outputs=outputs)


def steps_of(drawn):
    return [box for box in drawn.panels[0].boxes if box.kind not in ("input", "output")]


def test_the_first_view_has_at_most_thirty_boxes(drawn):
    assert drawn.depth == 1
    assert open_paths(drawn, drawn.depth) == set()
    assert 5 < len(drawn.panels[0].boxes) <= 30


def test_layers_are_counted_forward_and_backward(drawn):
    found = {box.label for box in steps_of(drawn) if "_gpt_layer" in box.label}
    assert found == {f"{way}_gpt_layer × {LAYERS}" for way in ("", "backward of ")}
    lines = [box.detail.rpartition(" · ")[2] for box in steps_of(drawn)]
    assert all(re.fullmatch(r"(.*/)?programs\.py:\d+(-\d+)?", words) for words in lines), lines


def test_the_optimiser_is_folded_by_layer(drawn):
    updates = [box.label for box in steps_of(drawn) if box.label == f"train_step × {LAYERS}"]
    assert len(updates) == 3  # both moments and the parameters


def test_columns_say_what_the_nodes_say(capture):
    module = capture.jaxpr.module
    plain = columns(Module(module.name, "jaxpr", module.entry, dict(module.regions)))
    kept = columns(module)
    for name, rows in kept.regions.items():
        other = plain.regions[name]
        assert list(rows.ids) == list(other.ids)
        for field in ("first_result", "first_operand", "distance"):
            assert getattr(rows, field) == getattr(other, field)
        assert list(rows.results) == list(other.results)
        assert [kept.places[n] for n in rows.place] == [
            other_place(plain, other, n) for n in range(len(rows))
        ]
        types = [plain.types[n] for n in other.types]
        assert [kept.types[n] for n in rows.types] == types
        pairs = set(zip(rows.kind, other.kind, strict=True))
        assert len({one for one, _ in pairs}) == len(pairs)  # never two kinds taken for one


def other_place(program, rows, step):
    return program.places[rows.place[step]]


def test_an_id_finds_its_node(capture):
    module = capture.jaxpr.module
    for node in module.nodes():
        assert module.node(node.id) is node or module.node(node.id) == node
    for wrong in ("e999999", "x", "", "e", "e-1", "e01"):
        with pytest.raises(KeyError):
            module.node(wrong)


def test_lines_beyond_the_first_are_the_same_lines(capture):
    module = capture.jaxpr.module
    whole = jaxpr_lines.listing(module, limit=10**9)
    cut = jaxpr_lines.listing(module, limit=50)
    assert whole.more == ()
    assert (*cut.lines, *cut.more) == whole.lines
    assert cut.more[-1] == whole.lines[-1]
    assert cut.more[10:20] == whole.lines[60:70]
    with pytest.raises(IndexError):
        cut.more[len(cut.more)]


def test_the_user_s_functions_alone_are_shown(capture):
    tabs = next(b for b in jaxlens.jaxpr(capture).document.blocks if isinstance(b, Tabs))
    (pane,) = [b for t in tabs.tabs for b in t.blocks if isinstance(b, SourcePane)]
    assert pane.title.endswith("programs.py")
    assert len(pane.lines) < 60
    under = sum(len(line.under) for line in pane.lines)
    assert under < 500


def test_its_html_says_what_it_left_out(capture):
    html = jaxlens.jaxpr(capture).html()
    assert len(html) < 1_000_000
    assert "folded into" in html
    assert "more equations" in html


@jax.jit
def shared(x):
    return jnp.where(x > 0, x, jnp.sin(x))


@jax.custom_jvp
def custom(x):
    return shared(x) * 2


custom.defjvp(lambda primals, tangents: (custom(*primals), tangents[0]))


def calls(x):
    """Functions that several lines call, in loops, differentiated."""
    y, _ = jax.lax.scan(lambda c, a: (shared(c) + custom(a), a), x, jnp.ones((3, 8)))
    z = jax.checkpoint(lambda v: custom(shared(v)))(y)
    return jnp.sum(jax.lax.cond(z[0] > 0, shared, custom, z))


@pytest.mark.parametrize("program", ["calls", "gpt"])
def test_a_traced_program_s_links_are_those_of_each_equation(program, capture):
    """`weave` works on groups of equations; this compares it with one query per equation."""
    if program == "calls":
        capture = jaxlens.capture(jax.grad(calls), jnp.ones(8))
    web = weave(capture.links, ("jaxpr",))
    assert web.alike is not None
    stacks = capture.links.linked("jaxpr").stacks
    number = {n.id: i for i, n in enumerate(capture.jaxpr.module.nodes())}
    lines: dict[str, set[int]] = {}
    through: dict[str, set[int]] = {}
    for id, place in number.items():
        assert web.atoms["jaxpr"][id] == (int(id[1:]),)
        for stack in stacks.atoms[place]:
            if span := owner(stack):
                lines.setdefault(str(span), set()).add(int(id[1:]))
            for passed in stack:
                if not passed.library:
                    through.setdefault(str(passed), set()).add(int(id[1:]))
        first = stacks.equations[id]
        words = [f"{s} in {s.function}" if s.function else str(s) for s in first]
        shown = list(web.stacks[web.stack[id]]) if id in web.stack else []
        assert shown == words[first.index(owner(first)) if owner(first) else 0 :]
    assert {line: set(atoms) for line, atoms in web.lines.items()} == lines
    rest = {line: atoms - lines.get(line, set()) for line, atoms in through.items()}
    assert {line: set(atoms) for line, atoms in web.calls.items()} == {
        line: atoms for line, atoms in rest.items() if atoms
    }
    assert dict(web.made) == equation_transforms(capture.jaxpr.module)
    assert set(web.atoms["jaxpr"]) == set(number)


def test_links_of_a_large_program_are_few_bytes():
    f, args = straight_line(3000)
    web = weave(jaxlens.capture(f, *args).links, ("jaxpr",))
    assert len(web.atoms["jaxpr"]) == 3000
    assert len(web_html(web, Budget())) < 2_000
    assert sum(web_data(web)["alike"][::2]) == 3000
