"""Each rule of `check` is violated once; the error names it."""

from dataclasses import replace

import pytest

from jaxlens.ir.graph import Module, Node, Region, Type, Value
from tests.ir.check import check

F32 = Type("f32")


def node(name: str, *operands: str, calls: tuple[str, ...] = ()) -> Node:
    return Node(name, "add", operands, (Value(name, F32),), regions=calls)


def region(name: str, *nodes: Node, result: str = "") -> Region:
    return Region(name, (Value(f"{name}.p", F32),), nodes, (result or nodes[-1].id,), "computation")


INNER = region("f", node("f.x", "f.p"))
MAIN = region("main", node("a", "main.p"), node("b", "a", "main.p", calls=("f",)))


def module(*regions: Region, stage: str = "hlo") -> Module:
    return Module("m", stage, "main", {r.name: r for r in regions})


BROKEN = {
    "entry 'main' is not the first region": module(INNER, MAIN),
    "region 'f' is held as 'g'": replace(module(MAIN), regions={"main": MAIN, "g": INNER}),
    "id 'a' stands for 2 nodes": module(replace(MAIN, nodes=(*MAIN.nodes, node("a"))), INNER),
    "2 values of 'main' are called 'a'": module(
        replace(MAIN, nodes=(*MAIN.nodes, node("a"))), INNER
    ),
    "'b' calls 'f', which does not exist": module(MAIN),
    "'f' stands before 'main', which calls it": module(INNER, MAIN),
    "'a' reads 'b' before it is made": module(region("main", node("a", "b"), node("b"))),
    "'a' reads 'nobody', which nothing makes": module(region("main", node("a", "nobody"))),
    "'a' reads 'f.x', which nothing makes": module(
        region("main", node("a", "f.x", calls=("f",))), INNER
    ),
    "result 'z' of 'main' does not exist": module(region("main", node("a"), result="z")),
    "'main' has 0 roots": module(replace(region("main", node("a")), results=())),
    "'a' does not make one value of its own name": module(
        region("main", Node("a", "add", results=(Value("b", F32),)), result="b")
    ),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_each_broken_rule_is_named(rule):
    assert rule in check(BROKEN[rule])


def test_a_legal_module_breaks_no_rule():
    assert check(module(MAIN, INNER)) == []


def test_other_stages_may_read_literals_and_values_around():
    inner = region("f", node("f.x", "a", "1.0:f32[]"))
    assert check(module(MAIN, inner, stage="stablehlo")) == []
    unrelated = region("g", node("g.x", "f.x"))
    broken = check(module(MAIN, inner, unrelated, stage="stablehlo"))
    assert broken == ["'g.x' reads 'f.x', which nothing makes"]
