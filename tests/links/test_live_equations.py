"""Which equations a result depends on, through nested bodies and loops."""

import pytest

from jaxlens.ir.graph import Module, Node, Region, Value
from jaxlens.links.live_equations import live_equations
from tests.support import linked_modules as by_hand

pytestmark = pytest.mark.reads_jax


def values(names: str) -> tuple[Value, ...]:
    return tuple(Value(name, by_hand.F32) for name in names.split())


def module(results: str, *nodes: Node, **bodies: tuple[str, str, tuple[Node, ...]]) -> Module:
    """A program; a body is its parameters, its results and its equations."""
    regions = {"main": Region("main", values("x y"), nodes, tuple(results.split()), "jaxpr")}
    for name, (parameters, gives, inner) in bodies.items():
        regions[name] = Region(name, values(parameters), inner, tuple(gives.split()), "jaxpr")
    return Module("f", "jaxpr", "main", regions)


def eqn(id: str, opcode: str, reads: str, gives: str, *regions: str, **attrs: str) -> Node:
    return Node(id, opcode, tuple(reads.split()), values(gives), attrs, regions)


def test_what_no_result_reads_is_not_needed() -> None:
    program = module("b", eqn("e0", "sin", "x", "a"), eqn("e1", "cos", "x", "b"))
    assert live_equations(program) == {"e1"}


def test_a_result_that_a_call_gives_and_nobody_reads_is_followed_into_it() -> None:
    inner = (eqn("e1", "sin", "p", "q"), eqn("e2", "cos", "r", "s"))
    program = module("b", eqn("e0", "jit", "x y", "a b", "g"), g=("p r", "q s", inner))
    assert live_equations(program) == {"e0", "e2"}
    before = eqn("e3", "neg", "x", "w")  # only the dead half of the call reads it
    program = module("b", before, eqn("e0", "jit", "w y", "a b", "g"), g=("p r", "q s", inner))
    assert live_equations(program) == {"e0", "e2"}


def test_what_a_loop_carries_is_followed_round_it() -> None:
    body = (eqn("e1", "sin", "a", "a1"), eqn("e2", "add", "b a", "b1"), eqn("e3", "exp", "a", "o"))
    loop = eqn("e0", "scan", "x y", "s t u", "body", num_carry="2", num_consts="0")
    program = module("t", loop, body=("a b", "a1 b1 o", body))
    assert live_equations(program) == {"e0", "e1", "e2"}  # u, and with it e3, is read by nobody
    program = module("s", loop, body=("a b", "a1 b1 o", body))
    assert live_equations(program) == {"e0", "e1"}


def test_the_test_of_a_while_decides_about_all_of_it() -> None:
    body = (eqn("e1", "add", "i", "i1"), eqn("e2", "mul", "v", "v1"))
    test = (eqn("e3", "lt", "j", "go"),)
    loop = eqn("e0", "while", "x y", "n m", "body", "cond", cond_nconsts="0", body_nconsts="0")
    program = module("m", loop, body=("i v", "i1 v1", body), cond=("j k", "go", test))
    assert live_equations(program) == {"e0", "e1", "e2", "e3"}


def test_a_cond_needs_its_index_and_what_its_branches_read() -> None:
    index, other = eqn("e0", "gt", "x", "i"), eqn("e1", "sin", "y", "z")
    cond = eqn("e2", "cond", "i z", "r", "one", "two")
    one, two = (eqn("e3", "cos", "p", "q"),), (eqn("e4", "exp", "s", "t"),)
    program = module("r", index, other, cond, one=("p", "q", one), two=("s", "t", two))
    assert live_equations(program) == {"e0", "e1", "e2", "e3", "e4"}


def test_an_effect_is_needed_whatever_reads_it() -> None:
    inner = (eqn("e1", "debug_callback", "p", ""),)
    program = module("x", eqn("e0", "jit", "y", "", "g"), g=("p", "", inner))
    assert live_equations(program) == {"e0", "e1"}


def test_calls_may_nest_deep() -> None:
    depth = 5000
    bodies = {
        f"g{n}": ("p", "q", (eqn(f"e{n}", "jit", "p", "q", f"g{n + 1}"),)) for n in range(depth)
    }
    bodies[f"g{depth}"] = ("p", "q", (eqn("last", "sin", "p", "q"),))
    program = module("r", eqn("first", "jit", "x", "r", "g0"), **bodies)
    assert len(live_equations(program)) == depth + 2
