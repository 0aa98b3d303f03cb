"""Flops against numbers counted by hand."""

from dataclasses import replace

import pytest

from jaxlens.ir.facts import Stage
from jaxlens.ir.graph import Module, Node, Region, Span, Type, Value
from jaxlens.ir.jaxpr.equation_flops import flops
from jaxlens.ir.stage import BY_NAME
from jaxlens.program.counted import count_module, counted, facts
from jaxlens.questions.cost.report import report as report_of
from jaxlens.report import Finding
from tests.support import fixed_captures as fixed


def f32(*shape: int) -> Type:
    return Type("f32", shape)


def eqn(opcode: str, out: Type, *operands: str, id: str = "e", line: int = 0, **attrs) -> Node:
    regions = attrs.pop("regions", ())
    spans = fixed.at(line) if line else ()
    return Node(id, opcode, operands, (Value(f"{id}.out", out),), attrs, regions, spans=spans)


def program(**bodies: tuple[Node, ...]) -> Module:
    regions = {
        name: Region(name, (Value("x", f32(8, 8)),), nodes, (nodes[-1].name,), "jaxpr")
        for name, nodes in bodies.items()
    }
    return Module("f", "jaxpr", next(iter(regions)), regions)


CONV = {
    "dimension_numbers": "ConvDimensionNumbers(lhs_spec=(0, 1, 2, 3), rhs_spec=(0, 1, 2, 3), "
    "out_spec=(0, 1, 2, 3))",
    "window_strides": "(1, 1)",
    "padding": "((0, 0), (0, 0))",
    "lhs_dilation": "(1, 1)",
    "rhs_dilation": "(1, 1)",
    "feature_group_count": "1",
    "batch_group_count": "1",
}
DOT = {"dimension_numbers": "(((1,), (0,)), ((), ()))"}


def conv(*out: int, **attrs: str) -> Node:
    return eqn("conv_general_dilated", f32(*out), "a", "b", **{**CONV, **attrs})


def while_loop(id: str, **more) -> tuple[Node, dict[str, tuple[Node, ...]]]:
    """A loop of unknown length, and its bodies: a product, and a comparison."""
    names = ("body", "cond")
    attrs = {"body_jaxpr": "body", "cond_jaxpr": "cond", "regions": names, **more}
    product = eqn("mul", f32(8, 8), "x", "x", id="m")
    test = eqn("lt", Type("bool"), "x", "x", id="c")
    bodies = dict(zip(names, ((product,), (test,)), strict=True))
    return eqn("while", f32(8, 8), "x", id=id, **attrs), bodies


@pytest.mark.parametrize(
    ("node", "types", "expected"),
    [
        # m=128, k=784, n=256: 2mnk.
        (eqn("dot_general", f32(128, 256), "a", "b", **DOT), {"a": f32(128, 784)}, 51_380_224),
        # Batched: 3 matrices of 4x5 by 5x6.
        (
            eqn(
                "dot_general",
                f32(3, 4, 6),
                "a",
                "b",
                dimension_numbers="(((2,), (1,)), ((0,), (0,)))",
            ),
            {"a": f32(3, 4, 5)},
            3 * 2 * 4 * 5 * 6,
        ),
        # 2 images, 4 output channels, 6x6 positions, 3 input channels, 3x3 taps.
        (
            conv(2, 4, 6, 6),
            {"a": f32(2, 3, 8, 8), "b": f32(4, 3, 3, 3)},
            2 * 2 * 4 * 6 * 6 * 3 * 9,
        ),
        # One row of 4 with padding 1 and 3 taps: 2 + 3 + 3 + 2 pairs, and the same down.
        (
            conv(1, 1, 4, 4, padding="((1, 1), (1, 1))"),
            {"a": f32(1, 1, 4, 4), "b": f32(1, 1, 3, 3)},
            2 * 10 * 10,
        ),
        # Two groups: each of 4 output channels sees 1 of 2 input channels.
        (
            conv(1, 4, 2, 2, feature_group_count="2"),
            {"a": f32(1, 2, 3, 3), "b": f32(4, 1, 2, 2)},
            2 * 4 * 4 * 1 * 4,
        ),
        (eqn("add", f32(8, 8), "a", "a"), {"a": f32(8, 8)}, 64),
        (eqn("reduce_sum", f32(8), "a", axes="(0,)"), {"a": f32(16, 8)}, 120),
        (eqn("cumsum", f32(4, 8), "a", axis="0"), {"a": f32(4, 8)}, 24),
        (eqn("integer_pow", f32(8), "a", y="3"), {"a": f32(8)}, 16),
        (eqn("integer_pow", f32(8), "a", y="-2"), {"a": f32(8)}, 16),
        (eqn("reduce_window_sum", f32(7, 7), "a", window_dimensions="(2, 2)"), {}, 147),
        (eqn("transpose", f32(8, 8), "a"), {"a": f32(8, 8)}, 0),
        (eqn("no_such_primitive", f32(8)), {}, None),
        (eqn("add", Type("f32", ("n",)), "a"), {}, None),
        (eqn("dot_general", f32(2, 2), "a", "b", dimension_numbers="?"), {"a": f32(2, 2)}, None),
    ],
)
def test_one_equation(node, types, expected) -> None:
    assert flops(node, types).arithmetic == expected


def test_transcendentals_are_counted_apart() -> None:
    count = flops(eqn("tanh", f32(8, 8), "a"), {"a": f32(8, 8)})
    assert (count.arithmetic, count.transcendental) == (0, 64)


def test_a_scan_counts_its_body_as_often_as_it_is_long() -> None:
    body = (eqn("add", f32(8, 8), "x", "x", id="b"), eqn("tanh", f32(8, 8), "b.out", id="t"))
    loop = eqn(
        "scan", f32(8, 8), "x", id="s", line=2, length="100", jaxpr="body", regions=("body",)
    )
    counts = count_module(program(main=(loop,), body=body))
    assert (counts.flops, counts.once, counts.transcendentals) == (6400, 64, 6400)
    assert counts.by_node == {"s": 0, "b": 6400, "t": 0}
    assert counts.by_line == {"cell 3:2": 6400}
    assert [(loop.kind, loop.trips, loop.flops) for loop in counts.loops] == [("scan", 100, 64)]


def test_loops_in_loops_multiply() -> None:
    inner = eqn("scan", f32(8, 8), "x", id="i", length="7", jaxpr="inner", regions=("inner",))
    outer = eqn("scan", f32(8, 8), "x", id="o", length="5", jaxpr="outer", regions=("outer",))
    add = eqn("add", f32(8, 8), "x", "x", id="a")
    counts = count_module(program(main=(outer,), outer=(inner,), inner=(add,)))
    assert counts.flops == 5 * 7 * 64
    assert counts.by_line == {"": 5 * 7 * 64}


def test_a_while_loop_counts_once_unless_its_trips_are_known() -> None:
    loop, bodies = while_loop("w")
    module = program(main=(loop,), **bodies)
    once = count_module(module)
    assert (once.flops, once.counted, once.loops[0].trips) == (None, 64 + 1, None)
    assert count_module(module, {"w": 10}).flops == 10 * 64 + 11


def test_of_a_cond_the_costliest_branch_counts() -> None:
    choice = eqn(
        "cond", f32(8, 8), "x", id="c", branches="(small, large)", regions=("small", "large")
    )
    large = eqn("dot_general", f32(8, 8), "x", "x", id="d", **DOT)
    small = eqn("add", f32(8, 8), "x", "x", id="a")
    counts = count_module(program(main=(choice,), small=(small,), large=(large,)))
    assert counts.flops == 2 * 8 * 8 * 8
    assert counts.by_node["a"] == 0
    assert counts.branches == ("c",)


def test_a_body_called_from_two_lines_is_counted_for_each() -> None:
    calls = tuple(
        eqn("jit", f32(8, 8), "x", id=f"j{line}", line=line, jaxpr="f", regions=("f",))
        for line in (2, 3)
    )
    counts = count_module(program(main=calls, f=(eqn("add", f32(8, 8), "x", "x", id="a"),)))
    assert counts.by_line == {"cell 3:2": 64, "cell 3:3": 64}
    assert counts.by_node["a"] == 128


def test_what_a_library_jits_is_counted_for_the_line_that_calls_it() -> None:
    add = eqn("add", f32(8, 8), "x", "x", id="a")
    add = replace(add, spans=(Span("lib/norm.py", 9, library=True),))
    call = eqn("jit", f32(8, 8), "x", id="j", line=2, jaxpr="f", regions=("f",))
    assert count_module(program(main=(call,), f=(add,))).by_line == {"cell 3:2": 64}
    assert count_module(program(main=(add,))).by_line == {"lib/norm.py:9": 64}


def test_thousands_of_nested_bodies_are_counted() -> None:
    bodies = {
        f"b{i}": (eqn("jit", f32(8, 8), "x", id=f"j{i}", regions=(f"b{i + 1}",)),)
        for i in range(5000)
    }
    bodies["b5000"] = (eqn("add", f32(8, 8), "x", "x", id="a"),)
    assert count_module(program(**bodies)).flops == 64


def test_what_has_no_rule_is_named() -> None:
    counts = count_module(program(main=(eqn("mystery", f32(8), "x", id="m"),)))
    assert counts.unknown == {"mystery": 1}


def texts(findings: tuple[Finding, ...]) -> str:
    return " ".join(finding.text for finding in findings)


def test_the_layer() -> None:
    cost = facts(fixed.capture())
    assert cost.flops == 2 * 4 * 8 * 2 + 8 + 8 + 8
    # x 128 B, w 64 B, b 8 B in; 32 B of f32 and 8 B of bool out.
    assert cost.bytes == 128 + 64 + 8 + 32 + 8
    assert cost.by_line == {"cell 3:2": 136, "cell 3:3": 16}
    assert sum(cost.by_node.values()) == cost.flops


def test_on_several_devices_the_figures_are_not_compared() -> None:
    one = fixed.capture()
    target = replace(one.program.target, devices=8)
    said = texts(
        report_of(counted(replace(one, program=replace(one.program, target=target)))).findings
    )
    assert "XLA's own figure for the optimised program on each of 8 devices: 160 flop." in said
    assert "not compared" in said
    assert "more:" not in said


def test_loops_of_unknown_length_are_said_to_be_so_in_one_sentence() -> None:
    (first, bodies), (second, _) = (while_loop(id, line=2) for id in ("u", "v"))
    module = program(main=(first, second), **bodies)
    said = [f for f in report_of(counted(with_jaxpr(module))).findings if f.trust == "unknown"]
    assert [finding.text for finding in said] == [
        "2 while loops (cell 3:2) run an unknown number of times; their bodies count once."
    ]
    assert said[0].ids == ("u", "v")


def with_jaxpr(module: Module, **figures: float):
    """A capture of a program, with XLA's figures replaced."""
    capture = fixed.capture()
    capture.driver._stages["jaxpr"] = Stage(BY_NAME["jaxpr"], str, lambda: module)
    theirs = {**capture.cost, **figures}
    capture.driver.cost = lambda: theirs
    return capture


def test_a_kernel_counts_for_each_point_of_its_grid() -> None:
    def module(grid: str) -> Module:
        call = eqn(
            "pallas_call",
            f32(8, 8),
            "x",
            id="k",
            line=2,
            regions=("kernel",),
            grid=grid,
        )
        return program(main=(call,), kernel=(eqn("add", f32(8, 8), "x", "x", id="a", line=3),))

    counts = count_module(module("(3, 2)"))
    assert (counts.flops, counts.once, counts.by_line) == (6 * 64, 64, {"cell 3:3": 6 * 64})
    assert [(loop.kind, loop.trips) for loop in counts.loops] == [("pallas_call", 6)]
    assert count_module(module("()")).flops == 64
    dynamic = count_module(module("(3, ?)"))
    assert (dynamic.flops, dynamic.counted, dynamic.loops[0].trips) == (None, 64, None)


def test_the_body_of_a_reduction_is_applied_once_for_each_element_that_disappears() -> None:
    reduce = eqn("reduce", f32(8), "x", "0.0:f32[]", id="r", dimensions="(0,)", regions=("body",))
    body = (eqn("mul", f32(), "x", "x", id="m"), eqn("add", f32(), "m.out", "x", id="a"))
    counts = count_module(program(main=(reduce,), body=body))
    assert (counts.flops, counts.once) == (2 * 56, 2 * 56)
    other = eqn("select_and_scatter", f32(8), "x", id="s", regions=("body",))
    assert count_module(program(main=(other,), body=body)).unknown == {"select_and_scatter": 1}
