"""The cost of one line, split by the first property that separates its equations."""

import pytest

from jaxlens.ir.graph import Module, Node, Region, Span, Type, Value
from jaxlens.questions.cost.line_split import parts, sentence

LINE = Span("train.py", 9, function="loss")
STEP = Span("train.py", 20, function="step")
OTHER = Span("b.py", 7, library=True)
LIBRARY = Span("layers.py", 5, function="Dense.__call__", library=True)


def eqn(id: str, scope: str = "", *spans: Span, opcode: str = "dot_general", calls=()) -> Node:
    value = Value(f"{id}.out", Type("f32", (8,)))
    return Node(id, opcode, (), (value,), {}, calls, scope, spans or (LINE, STEP))


def program(**bodies) -> Module:
    regions = {name: Region(name, (), nodes, (), "jaxpr") for name, nodes in bodies.items()}
    return Module("f", "jaxpr", next(iter(regions)), regions)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        # Scopes out of their transforms; what all share is left out.
        (
            (eqn("a", "jvp(net)/first"), eqn("b", "transpose(jvp(net))/second"), eqn("c", "net")),
            "50% in first, 50% in second",
        ),
        # No scope: the lines that call the one that does it.
        (
            (eqn("a", "", LINE, STEP), eqn("b", "", LINE, Span("train.py", 21, function="step"))),
            "50% in train.py:21 (step), 50% in train.py:20 (step)",
        ),
        # One caller: a library's lines below it.
        (
            (eqn("a", "", LIBRARY, LINE, STEP), eqn("b", "", OTHER, LINE, STEP)),
            "50% in b.py:7, 50% in layers.py:5 (Dense.__call__)",
        ),
        # One place: primitives.
        ((eqn("a"), eqn("b", opcode="add")), "50% in add, 50% in dot_general"),
        ((eqn("a"),), "all in dot_general"),
        ((), ""),
    ],
)
def test_the_first_split_that_tells(nodes, words) -> None:
    weights = {"a": 50, "b": 50, "c": 0}
    weights = {node.id: weights[node.id] for node in nodes}
    assert sorted(sentence(parts(program(main=nodes), weights)).split(", ")) == sorted(
        words.split(", ")
    )


def test_a_body_s_scopes_stand_behind_those_of_its_call() -> None:
    calls = (
        eqn("j", "net/first", calls=("one",), opcode="jit"),
        eqn("k", "net/second", calls=("two",), opcode="jit"),
    )
    module = program(main=calls, one=(eqn("a", "product"),), two=(eqn("b", "product"),))
    assert sentence(parts(module, {"a": 70, "b": 30})) == "70% in first, 30% in second"


def test_of_a_body_with_two_callers_only_what_they_share_is_said() -> None:
    calls = (
        eqn("j", "net/first", calls=("one",), opcode="jit"),
        eqn("k", "net/second", calls=("one",), opcode="jit"),
    )
    module = program(main=calls, one=(eqn("a", "left"), eqn("b", "right")))
    assert sentence(parts(module, {"a": 70, "b": 30})) == "70% in left, 30% in right"


def test_small_parts_are_counted() -> None:
    nodes = tuple(eqn(f"e{n}", f"layer{n}") for n in range(8))
    weights = {f"e{n}": 30 if n < 3 else 2 for n in range(8)}
    assert sentence(parts(program(main=nodes), weights)).endswith("10% in 5 others")


def test_primitives_are_those_of_the_bodies_and_not_the_calls() -> None:
    call = eqn("j", calls=("one",), opcode="custom_jvp_call")
    module = program(main=(call, eqn("a")), one=(eqn("b", opcode="max"),))
    assert sentence(parts(module, {"a": 60, "b": 40})) == "60% in dot_general, 40% in max"
