"""The drawing of an HLO module: boxes that open, nothing that only packs, every id somewhere."""

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.ir.graph import Module, Node, Region, Type, Value
from jaxlens.ir.hlo.reader import read
from jaxlens.render.graph.figure import open_paths
from jaxlens.render.graph.layout import layout
from jaxlens.views.figures.hlo import figure, pane
from tests.support.documents import approved, outline
from tests.support.drawn_modules import HOSTILE
from tests.support.paths import RECORDS, TEXTS

LOOP = (TEXTS / "loop.hlo.txt").read_text()


def labels(panel):
    return [box.label for box in panel.boxes]


def ids(drawn):
    """Every instruction that some box stands for."""
    return {id for panel in drawn.panels for box in panel.boxes for id in (box.id, *box.nodes)}


def test_a_loop_with_fusions_is_as_approved():
    """Every instruction is somewhere, but for what only hands results back."""
    drawn = figure(read(LOOP, stage="optimized"), depth=1)
    approved("figures/hlo.loop", outline(drawn))
    assert {node.id for node in read(LOOP).nodes()} - ids(drawn) <= {"tuple.1"}


def test_depth_opens_the_fusion_in_the_loop_in_place():
    assert max(map(len, open_paths(figure(read(LOOP), depth=9), 9))) >= 2


@pytest.mark.parametrize("name", ["mlp_step", "attention", "scan_rnn"])
@pytest.mark.parametrize("target", ["cpu", "gpu-h100", "tpu-v5e-2x2"])
def test_recorded_programs(name, target):
    capture = jaxlens.load(RECORDS / f"{name}.{target}.jaxlens")
    drawn = pane(capture).figure
    module = capture.optimized.module
    tuples = {node.id for node in module.nodes() if node.opcode == "tuple"}
    assert {node.id for node in module.nodes()} - ids(drawn) - tuples == set()
    for panel in drawn.panels:
        placed = {box.id for box in panel.boxes}
        assert len(placed) == len(panel.boxes)
        assert all(edge.tail in placed and edge.head in placed for edge in panel.edges)
    assert len(drawn.panels[0].boxes) <= 60
    assert "boxes at the top level" in pane(capture).alt


@pytest.mark.parametrize(("target", "form"), [("cpu", "ynn"), ("gpu-h100", "triton")])
def test_a_custom_fusion_says_whose_it_is(target, form):
    drawn = pane(jaxlens.load(RECORDS / f"mlp_step.{target}.jaxlens")).figure
    details = [box.detail for box in drawn.panels[0].boxes if box.kind == "matmul"]
    assert any(words.startswith(form) and "dot" in words for words in details)


def long(layers):
    """Layers whose forward and backward halves, and updates, stand one among the other."""
    lines, last, back = ["  %x = f32[8] parameter(0)"], "x", []
    for n in range(layers):
        for k, op in enumerate(["sine", "cosine", "tanh", "exponential"]):
            name = f"f{n}.{k}"
            scope = f'metadata={{op_name="jit(f)/jvp(layer)/{op}"}}'
            lines.append(f"  %{name} = f32[8] {op}(%{last}), {scope}")
            last = name
        scope = 'metadata={op_name="jit(f)/update/mul"}'
        lines.append(f"  %u{n} = f32[8] negate(%f{n}.3), {scope}")
        back.append(f"%u{n}")
    lines.append(f"  ROOT %t = ({', '.join(['f32[8]'] * layers)}) tuple({', '.join(back)})")
    body = "\n".join(lines)
    return f"HloModule m\n\nENTRY %main (x: f32[8]) -> f32[8] {{\n{body}\n}}\n"


def test_a_long_entry_folds_into_what_belongs_together():
    module = read(long(40))
    drawn = figure(module)
    top = drawn.panels[0]
    assert len(top.boxes) <= 12
    assert "200 instructions folded" in drawn.note
    details = [box.detail for box in top.boxes]
    assert not any("eqns" in words for words in details)
    assert {node.id for node in module.nodes()} - ids(drawn) == {"t"}


def test_a_train_step_folds_into_forward_and_backward_of_its_layers():
    """XLA's schedule interleaves them."""

    def layer(h, w):
        return jnp.tanh(h @ w) * jnp.sin(h)

    def loss(ws, x):
        for w in ws:
            x = layer(x, w)
        return (x**2).sum()

    def step(ws, x):
        return [w - 0.1 * g for w, g in zip(ws, jax.grad(loss)(ws, x), strict=True)]

    shown = jaxlens.capture(step, [jnp.ones((16, 16))] * 12, jnp.ones((8, 16)))
    drawn = figure(shown.optimized.module)
    names = [label.partition(" ×")[0] for label in labels(drawn.panels[0])]
    inputs, outputs = names[:2], names[-2:]
    assert (inputs, outputs) == (["ws", "x"], ["step", "outputs"])
    assert list(dict.fromkeys(names[2:-2])) == ["layer", "backward of layer"]
    assert names[2:-2] == sorted(names[2:-2], reverse=True)  # all of one before the other


def test_ten_thousand_instructions_fold():
    drawn = figure(read(long(2000)))
    assert len(drawn.panels[0].boxes) <= 60


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_any_name_will_do(name):
    kind = Type("f32", (4,))
    node = Node(
        f"{name}1", name, (f"{name}0",), (Value(f"{name}1", kind),), {name: name}, scope=name
    )
    start = Node(f"{name}0", "parameter", results=(Value(f"{name}0", kind),))
    main = Region("main", (Value(f"{name}0", kind),), (start, node), (f"{name}1",), "computation")
    drawn = figure(Module(name, "optimized", "main", {"main": main}))
    assert len(layout(drawn.panels[0]).spots) == 3


def test_calls_in_calls_in_calls():
    depth = 2000
    parts = ["HloModule m\n"]
    for n in reversed(range(depth)):
        inside = f"call(%p{n}), to_apply=%f{n + 1}" if n < depth - 1 else f"sine(%p{n})"
        second = f"  ROOT %t{n} = f32[] tanh(%c{n})"
        lines = f"  %p{n} = f32[] parameter(0)\n  %c{n} = f32[] {inside}\n{second}"
        parts.append(f"{'ENTRY ' if not n else ''}%f{n} (p{n}: f32[]) -> f32[] {{\n{lines}\n}}\n")
    drawn = figure(read("\n".join(parts)), depth=1)
    assert len(drawn.panels) == depth
    assert labels(drawn.named[f"f{depth - 1}"]) == [f"p{depth - 1}", "sine", "tanh", "out"]
