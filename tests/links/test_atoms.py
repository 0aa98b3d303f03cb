"""Atoms distinguish the calls of one function, and every node has its origins' atoms."""

import time

import pytest

from jaxlens.ir.graph import owner
from jaxlens.ir.hlo import reader as hlo
from jaxlens.links.atoms import atoms
from jaxlens.links.linked import Linked
from tests.support import linked_modules as by_hand

pytestmark = pytest.mark.reads_jax


def sharing(linked: Linked, id: str, at: str, to: str) -> set[str]:
    """The nodes that share an atom with a node."""
    mine = set(linked.atoms_of(at).get(id, ()))
    return {other for other, theirs in linked.atoms_of(to).items() if mine & set(theirs)}


def test_where_nothing_was_lowered_every_equation_is_an_atom() -> None:
    by_node = atoms(by_hand.jaxpr(), None)
    assert sorted(by_node.jaxpr.values()) == [(0,), (1,), (2,), (3,), (4,)]


def test_an_op_is_an_atom_and_so_is_each_call_that_leads_to_it() -> None:
    by_node = by_hand.linked().atoms
    assert by_node.paths[:6] == [(f"s{n}",) for n in range(6)]
    assert set(by_node.paths[6:8]) == {("s1", "s5"), ("s2", "s5")}
    assert by_node.equations[6] == (("e3",),)
    assert by_node.jaxpr["e0"] == by_node.ops["s0"]


def test_an_equation_without_ops_is_an_atom_that_nothing_shares() -> None:
    linked = by_hand.linked()
    assert len(linked.atoms.jaxpr["e4"]) == 1
    assert sharing(linked, "e4", "jaxpr", "stablehlo") == set()


def test_two_calls_of_one_function_light_different_instructions() -> None:
    linked = by_hand.linked()
    assert sharing(linked, "e1", "jaxpr", "optimized") >= {"max.1", "mul_max"}
    assert "max.2" not in sharing(linked, "e1", "jaxpr", "optimized")
    assert sharing(linked, "e2", "jaxpr", "optimized") >= {"max.2"}
    assert "max.1" not in sharing(linked, "e2", "jaxpr", "optimized")
    assert sharing(linked, "e3", "jaxpr", "optimized") >= {"max.1", "max.2"}
    assert sharing(linked, "max.2", "optimized", "stablehlo") == {"s2", "s5"}


def test_a_fusion_has_what_it_holds() -> None:
    linked = by_hand.linked()
    assert sharing(linked, "mul_max", "optimized", "jaxpr") >= {"e0", "e1", "e3"}
    assert "e2" not in sharing(linked, "mul_max", "optimized", "jaxpr")


def test_a_literal_belongs_to_the_one_equation_that_reads_it() -> None:
    linked = by_hand.linked()
    assert sharing(linked, "s3", "stablehlo", "jaxpr") == {"e3"}
    assert linked.how("stablehlo") == {"s3": "inferred"}


def test_what_the_compiler_put_in_is_inferred_from_its_neighbours() -> None:
    linked = by_hand.linked()
    how = linked.how("optimized")
    assert how["spread.2"] == how["moved"] == how["mul_max"] == "inferred"
    assert "max.2" not in how
    of = linked.atoms_of("optimized")
    assert of["spread.2"] == of["max.2"] == of["moved"]
    assert of["spread.1"] == of["max.1"]
    assert "handed" not in of  # an argument handed through: no equation made it


def test_without_stamps_scopes_frames_and_values_are_left() -> None:
    linked = by_hand.linked(stamped=False)
    assert sharing(linked, "e0", "jaxpr", "stablehlo") == {"s0"}
    assert sharing(linked, "e0", "jaxpr", "optimized") >= {"mul.1", "mul_max"}
    assert sharing(linked, "max.1", "optimized", "jaxpr") == {"e3"}
    assert linked.how("optimized")["mul.1"] in ("value", "span")


@pytest.mark.parametrize(("id", "lines"), [("e0", ["cell 1:2"]), ("e3", ["cell 1:3"])])
def test_an_equation_has_the_stack_of_its_call(id: str, lines: list[str]) -> None:
    assert [str(span) for span in by_hand.linked().stacks.equations[id]] == lines


def test_each_copy_of_an_equation_belongs_to_the_line_of_its_call() -> None:
    linked = by_hand.linked()
    lines = {
        path: [str(owner(stack)) for stack in stacks]
        for path, stacks in zip(linked.atoms.paths, linked.stacks.atoms, strict=True)
    }
    assert lines[("s1", "s5")] == ["cell 1:3"]
    assert lines[("s2", "s5")] == ["cell 1:4"]
    assert lines[("s5",)] == ["cell 1:3", "cell 1:4"]  # the function's own text serves both
    assert linked.lines["cell 1:2"] == (linked.atoms.ops["s0"][0], *linked.atoms.jaxpr["e4"])


def test_the_end_of_a_stack_that_is_the_first_calls_is_cut_off() -> None:
    jaxpr = by_hand.jaxpr()
    relu = jaxpr.regions["relu"]
    traced = by_hand.node("e3", "max", "y 0.0:f32[]", "z", spans=by_hand.line(9, 3))
    object.__setattr__(relu, "nodes", (traced,))
    modules = by_hand.linked().modules
    linked = Linked({**modules, "jaxpr": jaxpr})
    stacks = dict(zip(linked.atoms.paths, linked.stacks.atoms, strict=True))
    (second,) = stacks[("s2", "s5")]
    assert [str(span) for span in second] == ["cell 1:9", "cell 1:4"]


def test_time_is_linear() -> None:
    def seconds(n: int) -> float:
        lines = [
            f'  %v{i} = f32[8]{{0}} add(%v{i - 1}, %x), metadata={{op_name="_jls{i % 6}_/add"}}'
            if i % 3
            else f"  %v{i} = f32[8]{{0}} copy(%v{i - 1})"
            for i in range(1, n)
        ]
        text = "HloModule m\n\nENTRY %e (v0: f32[8], x: f32[8]) -> f32[8] {\n"
        text += "  %v0 = f32[8]{0} parameter(0)\n  %x = f32[8]{0} parameter(1)\n"
        module = hlo.read(text + "\n".join(lines) + "\n}\n", stage="optimized")
        list(module.nodes())
        linked = Linked({"jaxpr": by_hand.jaxpr(), "stablehlo": by_hand.stablehlo()})
        start = time.process_time()
        assert len(linked.reach(module).all) == n - 1
        return time.process_time() - start

    seconds(500)
    assert seconds(16_000) < 16 * 8 * seconds(2_000)


def test_calls_may_nest_deep() -> None:
    depth = 3000
    path = "/".join(f"_jls{n % 3}_/jit(g)" for n in range(depth))
    body = f'  ROOT %r = f32[8]{{0}} sine(%v), metadata={{op_name="{path}/_jls5_/max"}}\n'
    text = "HloModule m\n\nENTRY %e (v: f32[8]) -> f32[8] {\n  %v = f32[8]{0} parameter(0)\n"
    module = hlo.read(text + body + "}\n", stage="optimized")
    linked = Linked(
        {
            "jaxpr": by_hand.jaxpr(),
            "stablehlo": by_hand.stablehlo(),
            "optimized": module,
        }
    )
    assert "e3" in sharing(linked, "r", "optimized", "jaxpr")
