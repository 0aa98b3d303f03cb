"""The drawing of an HLO module: boxes that open, nothing that only packs, every id somewhere."""

import pytest

import jaxlens
from jaxlens.ir.graph import Module, Node, Region, Type, Value
from jaxlens.ir.hlo.reader import read
from jaxlens.render.graph.figure import open_paths
from jaxlens.render.graph.layout import layout
from jaxlens.views.figures.hlo import figure, pane
from tests.support.drawn_modules import HOSTILE
from tests.support.paths import RECORDS

LOOP = """HloModule jit_f, is_scheduled=true

%fused_computation (param_0: f32[4]) -> f32[4] {
  %param_0 = f32[4]{0} parameter(0)
  %constant.9 = f32[] constant(2)
  %broadcast.9 = f32[4]{0} broadcast(%constant.9), dimensions={}
  %multiply.1 = f32[4]{0} multiply(%param_0, %broadcast.9), metadata={op_name="jit(f)/mul"}
  ROOT %tanh.1 = f32[4]{0} tanh(%multiply.1), metadata={op_name="jit(f)/tanh"}
}

%wrapped_add_computation (param_0.1: s32[], param_1.1: s32[]) -> s32[] {
  %param_0.1 = s32[] parameter(0)
  %param_1.1 = s32[] parameter(1)
  ROOT %add.1 = s32[] add(%param_0.1, %param_1.1)
}

%body (param: (s32[], f32[4])) -> (s32[], f32[4]) {
  %param = (s32[], f32[4]{0}) parameter(0)
  %gte.0 = s32[] get-tuple-element(%param), index=0
  %gte.1 = f32[4]{0} get-tuple-element(%param), index=1
  %constant.1 = s32[] constant(1)
  %wrapped_add = s32[] fusion(%gte.0, %constant.1), kind=kLoop, calls=%wrapped_add_computation
  %mul_tanh = f32[4]{0} fusion(%gte.1), kind=kLoop, calls=%fused_computation
  ROOT %tuple.1 = (s32[], f32[4]{0}) tuple(%wrapped_add, %mul_tanh)
}

%condition (param.1: (s32[], f32[4])) -> pred[] {
  %param.1 = (s32[], f32[4]{0}) parameter(0)
  %gte.2 = s32[] get-tuple-element(%param.1), index=0
  %constant.2 = s32[] constant(3)
  ROOT %compare.1 = pred[] compare(%gte.2, %constant.2), direction=LT
}

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add.2 = f32[] add(%a, %b)
}

ENTRY %main (x.1: f32[4]) -> f32[] {
  %x.1 = f32[4]{0} parameter(0), metadata={op_name="x"}
  %constant.3 = s32[] constant(0)
  %constant.4 = f32[] constant(0)
  %tuple.2 = (s32[], f32[4]{0}) tuple(%constant.3, %x.1)
  %while.1 = (s32[], f32[4]{0}) while(%tuple.2), condition=%condition, body=%body, backend_config={"known_trip_count":{"n":"3"}}
  %gte.3 = f32[4]{0} get-tuple-element(%while.1), index=1
  ROOT %reduce.1 = f32[] reduce(%gte.3, %constant.4), dimensions={0}, to_apply=%sum
}
"""  # noqa: E501


def boxes(panel):
    return {box.id: (box.label, box.detail, box.kind) for box in panel.boxes if box.kind}


def labels(panel):
    return [box.label for box in panel.boxes]


def ids(drawn):
    """Every instruction that some box stands for."""
    return {id for panel in drawn.panels for box in panel.boxes for id in (box.id, *box.nodes)}


@pytest.fixture(scope="module")
def loop():
    return figure(read(LOOP, stage="optimized"), depth=1)


def test_the_entry_says_what_runs(loop):
    top = loop.panels[0]
    assert loop.stage == "optimized"
    assert labels(top) == ["x", "while", "reduce", "out"]
    assert boxes(top)["while.1"] == ("while", "× 3", "control")
    assert boxes(top)["reduce.1"] == ("reduce", "add over {0}", "reduce")
    flows = [(edge.tail, edge.head, edge.label) for edge in top.edges]
    assert flows == [
        ("main in x.1", "while.1", "f32[4]"),
        ("while.1", "reduce.1", "f32[4]"),
        ("reduce.1", "main out 0", "f32[]"),
    ]


def test_loops_and_fusions_open(loop):
    named = loop.named
    door = next(box for box in loop.panels[0].boxes if box.id == "while.1")
    bodies = named[door.inside]
    assert bodies.through
    assert labels(bodies) == ["condition", "body"]
    body = named[bodies.boxes[1].inside]
    assert boxes(body)["wrapped_add"] == ("wrapped_add", "loop · add  ·, 1", "elementwise")
    assert boxes(body)["mul_tanh"] == ("mul_tanh", "loop · multiply, tanh", "elementwise")
    inputs = {box.label: box.nodes for box in body.boxes if box.kind == "input"}
    assert inputs == {"param[0]": ("param", "gte.0"), "param[1]": ("param", "gte.1")}
    inside = {box.id: box.inside for box in body.boxes}
    assert not inside["wrapped_add"]  # one instruction: the box says it
    fused = named[inside["mul_tanh"]]
    assert boxes(fused)["multiply.1"] == ("multiply", "·, 2", "elementwise")
    assert ("multiply.1", "tanh.1") in [(edge.tail, edge.head) for edge in fused.edges]


def test_every_instruction_is_somewhere(loop):
    module = read(LOOP)
    missing = {node.id for node in module.nodes()} - ids(loop)
    assert missing <= {"tuple.1"}  # what only hands results back


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
