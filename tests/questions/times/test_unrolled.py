"""Unrolled loops in hand-written jaxprs whose repetitions and blocks are known."""

from collections.abc import Sequence

import pytest

from jaxlens.ir.graph import Module, Node, Region, Span, Type, Value
from jaxlens.questions.times.equations import equations
from jaxlens.questions.times.unrolled import Unrolled, unrolled

VECTOR = Type("f32", (4,))


class Written:
    """A jaxpr that grows: `op` adds an equation and returns its result's name."""

    def __init__(self, inputs: Sequence[str], bodies: Sequence[Region] = ()) -> None:
        self.nodes: list[Node] = []
        self.inputs = inputs
        self.bodies = bodies

    def op(self, opcode: str, *operands: str, type_: Type = VECTOR, line: int = 3, **more) -> str:
        name = f"v{len(self.nodes)}"
        spans = (Span("cell 1", line, line, 0, 9, "f", "<cell 1>"),)
        node = Node(
            f"e{len(self.nodes)}",
            opcode,
            operands,
            (Value(name, type_),),
            more.get("attrs", {}),
            tuple(more.get("regions", ())),
            spans=spans,
        )
        self.nodes.append(node)
        return name

    def module(self, result: str) -> Module:
        values = tuple(Value(name, VECTOR) for name in self.inputs)
        main = Region("main", values, self.nodes, (result,), "jaxpr")
        regions = {region.name: region for region in (main, *self.bodies)}
        return Module("f", "jaxpr", "main", regions)


def unrolled_loops(module: Module) -> tuple[Unrolled, ...]:
    counted = equations(module)
    return unrolled(module, counted.written, counted.times)


def loop(k: int, block: int) -> Module:
    """`block` equations, k times; each reads the one before, the first a constant too."""
    jaxpr = Written(["x", "c"])
    x = "x"
    for _ in range(k):
        x = jaxpr.op("mul", x, "c")
        for n in range(block - 1):
            x = jaxpr.op(f"op{n}", x)
    return jaxpr.module(x)


@pytest.mark.parametrize(("k", "block"), [(400, 12), (4, 9), (17, 1), (9, 40), (2_000, 2)])
def test_a_loop_of_known_length_and_body(k: int, block: int) -> None:
    (one,) = unrolled_loops(loop(k, block))
    assert (one.count, one.block, one.carried) == (k, block, 1)
    assert one.equations == k * block
    assert one.line == "cell 1:3"


def test_what_stands_round_a_loop_is_no_part_of_it() -> None:
    jaxpr = Written(["x"])
    x = jaxpr.op("exp", jaxpr.op("mul", "x", "x", line=2), line=2)
    for _ in range(10):
        x = jaxpr.op("sin", x)
        x = jaxpr.op("mul", x, x)
    x = jaxpr.op("log", x, line=9)
    (one,) = unrolled_loops(jaxpr.module(x))
    assert (one.first, one.count, one.block, one.line) == (2, 10, 2, "cell 1:3")


def test_a_weight_an_index_and_a_number_for_each_step() -> None:
    weights = [f"w{n}" for n in range(8)]
    jaxpr = Written(["x", "all", *weights])
    x = "x"
    for n, weight in enumerate(weights):
        bounds = {"start_indices": f"({n},)", "limit_indices": f"({n + 1},)", "strides": "None"}
        part = jaxpr.op("slice", "all", attrs=bounds)
        x = jaxpr.op("dot_general", x, weight)
        x = jaxpr.op("add", x, part)
        x = jaxpr.op("mul", x, f"{n}.0:f32[]")
    (one,) = unrolled_loops(jaxpr.module(x))
    assert (one.count, one.block, one.carried) == (8, 4, 1)


def test_a_carry_of_several_values_some_of_them_older() -> None:
    jaxpr = Written(["a", "b", "s"])
    a, b, total = "a", "b", "s"
    for _ in range(12):
        new = jaxpr.op("add", jaxpr.op("sin", a), b)
        total = jaxpr.op("add", total, new)
        a, b = b, new
    (one,) = unrolled_loops(jaxpr.module(total))
    assert (one.count, one.block) == (12, 3)
    assert one.carried == 3  # the last value, the one before it, and the sum


def test_a_loop_in_a_loop() -> None:
    jaxpr = Written(["x"])
    x = "x"
    for _ in range(10):
        x = jaxpr.op("exp", x, line=2)
        for _ in range(20):
            x = jaxpr.op("sin", x, line=4)
            x = jaxpr.op("mul", x, x, line=4)
        x = jaxpr.op("log", x, line=5)
    (outer,) = unrolled_loops(jaxpr.module(x))
    assert (outer.count, outer.block, outer.line) == (10, 42, "cell 1:2-5")


def test_a_body_that_calls_counts_what_it_calls() -> None:
    inner = [Node(f"i{n}", "sin", ("p",), (Value(f"q{n}", VECTOR),)) for n in range(6)]
    body = Region("layer", (Value("p", VECTOR),), inner, ("q5",), "jaxpr")
    jaxpr = Written(["x"], [body])
    x = "x"
    for _ in range(12):
        x = jaxpr.op("jit", x, regions=["layer"])
    module = jaxpr.module(x)
    (one,) = unrolled_loops(module)
    assert (one.count, one.size, one.block) == (12, 1, 7)
    assert equations(module).total == 12 * 7
    assert equations(module).shown == 12 + 6


def separate() -> Module:
    """The same work on twelve inputs: a case for `vmap`, not for `scan`."""
    jaxpr = Written([f"x{n}" for n in range(12)])
    y = ""
    for n in range(12):
        y = jaxpr.op("mul", jaxpr.op("exp", jaxpr.op("sin", f"x{n}")), "c")
    return jaxpr.module(y)


def growing() -> Module:
    """Each step's result is longer."""
    jaxpr = Written(["x"])
    x = "x"
    for n in range(12):
        x = jaxpr.op("concatenate", x, "x", type_=Type("f32", (4 + n,)))
        x = jaxpr.op("sin", x, type_=Type("f32", (4 + n,)))
    return jaxpr.module(x)


def from_the_first() -> Module:
    """Every block reads the first block's result, and none the one before."""
    jaxpr = Written(["x"])
    first = jaxpr.op("exp", jaxpr.op("sin", "x"))
    y = first
    for _ in range(12):
        y = jaxpr.op("mul", jaxpr.op("exp", jaxpr.op("sin", first)), "x")
    return jaxpr.module(y)


def wired_differently() -> Module:
    """The same equations, but the distance to what each block reads is never the same."""
    jaxpr = Written(["x"])
    made = ["x"]
    for n in range(16):
        made.append(jaxpr.op("mul", jaxpr.op("sin", made[(n * n) // 2 % len(made)]), made[n // 3]))
    return jaxpr.module(made[-1])


def three_times() -> Module:
    return loop(3, 30)


def widths() -> Module:
    """A block's result is a number in each copy, but what it reads has another shape."""
    jaxpr = Written(["x"])
    total = "x"
    for n in range(12):
        part = jaxpr.op("iota", type_=Type("f32", (n + 1,)))
        total = jaxpr.op("add", total, jaxpr.op("reduce_sum", part))
    return jaxpr.module(total)


@pytest.mark.parametrize(
    "near", [separate, growing, from_the_first, wired_differently, three_times, widths]
)
def test_what_only_looks_like_a_loop(near) -> None:
    assert unrolled_loops(near()) == ()


def test_a_loop_that_begins_where_its_neighbours_look_alike() -> None:
    jaxpr = Written(["x", "y"])
    x = jaxpr.op("mul", "y", "y", line=1)
    for _ in range(9):
        x = jaxpr.op("sin", x)
        x = jaxpr.op("add", x, x)
        x = jaxpr.op("mul", x, "y")
    (one,) = unrolled_loops(jaxpr.module(x))
    assert (one.count, one.block, one.carried) == (9, 3, 1)


def test_lines_add_up() -> None:
    module = loop(30, 5)
    counted = equations(module)
    assert counted.total == 150
    assert counted.own == {"cell 1:3": 150}
    assert counted.total == sum(counted.own.values()) == 150


def test_long_programs_take_linear_time() -> None:
    assert unrolled_loops(loop(4_000, 3))[0].count == 4_000
    jaxpr = Written([])
    for n in range(8_000):
        jaxpr.op("sin", f"x{n}")
    assert unrolled_loops(jaxpr.module("v0")) == ()
