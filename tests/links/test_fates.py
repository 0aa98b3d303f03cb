"""Fates of equations in hand-written programs."""

from collections.abc import Mapping

import pytest

from jaxlens.ir.graph import Module, Node, Region, Value
from jaxlens.ir.hlo import reader as hlo
from jaxlens.links.evidence import Evidence
from jaxlens.links.fate import EquationFate, fates
from jaxlens.links.linked import Linked
from tests.support import fixed_captures as fixed
from tests.support import linked_modules as by_hand

pytestmark = pytest.mark.reads_jax

X = (Value("x", by_hand.F32),)


def text(*lines: str) -> str:
    """An HLO module of one parameter `x`; `#3` after an instruction stamps it with op s3."""
    body = []
    for line in ("%x = f32[8]{0} parameter(0)", *lines):
        code, _, ops = line.partition(" #")
        names = ";".join(f"jit(f)/_jls{op}_/op" for op in ops.split())
        body.append("  " + code + (f', metadata={{op_name="{names}"}}' if ops else ""))
    return "HloModule m\n\nENTRY %e (x: f32[8]) -> f32[8] {\n" + "\n".join(body) + "\n}\n"


def program(*equations: tuple[str, str, str]) -> tuple[Module, Module]:
    """Equations e0, e1, ... as (primitive, what it reads, StableHLO's name), and an op for each.

    An equation with "" for StableHLO makes no op. Results are called a0, a1, ...
    """
    nodes, ops = [], []
    for n, (primitive, reads, op) in enumerate(equations):
        nodes.append(by_hand.node(f"e{n}", primitive, reads, f"a{n}"))
        if op:
            named = " ".join(f"%{name}" for name in reads.split())
            stamped: tuple[tuple[str, ...], ...] = ((f"e{n}",),)
            ops.append(by_hand.node(f"s{n}", f"stablehlo.{op}", named, f"%a{n}", stamps=stamped))
    return _module("jaxpr", nodes, "x"), _module("stablehlo", ops, "%x")


def _module(stage: str, nodes: list[Node], x: str) -> Module:
    kind = "jaxpr" if stage == "jaxpr" else "func"
    last = (nodes[-1].results[0].name,)
    region = Region("main", (Value(x, by_hand.F32),), tuple(nodes), last, kind)
    return Module("f", stage, "main", {"main": region})


def judged(
    modules: tuple[Module, Module], before: str, after: str, *dumps: tuple[str, str, str]
) -> Mapping[str, EquationFate]:
    """The fates; each dump is (pipeline, pass, text), after the HLO before optimisation."""
    linked = Linked(
        {
            "jaxpr": modules[0],
            "stablehlo": modules[1],
            "hlo": hlo.read(before, stage="hlo"),
            "optimized": hlo.read(after, stage="optimized"),
        }
    )
    passes = [fixed.dump(0, "", "before_optimizations", before, False)] if dumps else []
    passes += [fixed.dump(n, *dump) for n, dump in enumerate(dumps, 1)]
    return fates(linked, passes)


def test_fused_inlined_and_dead() -> None:
    by_equation = fates(by_hand.linked())
    assert (by_equation["e0"].name, by_equation["e0"].into) == ("fused", ("mul_max",))
    assert (by_equation["e1"].name, by_equation["e2"].name) == ("inlined", "inlined")
    assert by_equation["e1"].sentence == "Inlined: the equations of relu took the call's place."
    assert set(by_equation["e3"].into) == {"mul_max", "max.2"}
    assert (by_equation["e4"].name, by_equation["e4"].by) == ("dead", "lowering")


def test_an_instruction_that_stays_is_kept() -> None:
    both = text("ROOT %t = f32[8]{0} tanh(%x) #0")
    by_equation = judged(program(("tanh", "x", "tanh")), both, both)
    words = "Kept: runs as t (tanh)."
    assert by_equation["e0"] == EquationFate("e0", "kept", words, ("t",), instructions=("t",))


def test_of_two_equations_of_one_value_the_second_is_merged_with_the_first() -> None:
    equations = program(("sin", "x", "sine"), ("sin", "x", "sine"), ("add", "a0 a1", "add"))
    before = text(
        "%s1 = f32[8]{0} sine(%x) #0",
        "%s2 = f32[8]{0} sine(%x) #1",
        "ROOT %a = f32[8]{0} add(%s1, %s2) #2",
    )
    after = text("%s1 = f32[8]{0} sine(%x) #0", "ROOT %a = f32[8]{0} add(%s1, %s1) #2")
    by_equation = judged(equations, before, after, ("simplify", "cse", after))
    assert (by_equation["e0"].name, by_equation["e2"].name) == ("kept", "kept")
    assert by_equation["e1"].name == "merged"
    assert by_equation["e1"].partners == ("e0",)
    assert (by_equation["e1"].by, by_equation["e1"].index) == ("cse", 1)
    assert by_equation["e1"].sentence == "Merged with e0 (sin), which has the same value, by cse."
    assert by_equation["e1"].into == by_equation["e1"].instructions == ("s1",)
    joint = after.replace("_jls0_/op", "_jls0_/op;jit(f)/_jls1_/op")  # as some passes leave names
    by_equation = judged(equations, before, joint)
    assert (by_equation["e0"].name, by_equation["e1"].name) == ("kept", "merged")
    assert by_equation["e1"].sentence == "Merged with e0 (sin), which has the same value."


def test_equal_values_that_both_stay_are_not_merged() -> None:
    equations = program(("sin", "x", "sine"), ("sin", "x", "sine"), ("add", "a0 a1", "add"))
    both = text(
        "%s1 = f32[8]{0} sine(%x) #0",
        "%s2 = f32[8]{0} sine(%x) #1",
        "ROOT %a = f32[8]{0} add(%s1, %s2) #2",
    )
    assert {fate.name for fate in judged(equations, both, both).values()} == {"kept"}


def test_another_opcode_is_a_rewrite_and_the_pass_is_named() -> None:
    equations = program(("div", "x x", "divide"), ("neg", "a0", "negate"))
    before = text("%d = f32[8]{0} divide(%x, %x) #0", "ROOT %n = f32[8]{0} negate(%d) #1")
    after = text("%m = f32[8]{0} multiply(%x, %x) #0", "ROOT %n = f32[8]{0} negate(%m) #1")
    fate = judged(equations, before, after, ("simplify", "algsimp", after))["e0"]
    assert (fate.name, fate.into, fate.by, fate.index) == ("rewritten", ("m",), "algsimp", 1)
    assert fate.sentence == "Rewritten: divide became m (multiply), by algsimp."


def test_a_dump_that_opens_a_pipeline_names_an_interval() -> None:
    equations = program(("div", "x x", "divide"), ("neg", "a0", "negate"))
    before = text("%d = f32[8]{0} divide(%x, %x) #0", "ROOT %n = f32[8]{0} negate(%d) #1")
    after = text("%m = f32[8]{0} multiply(%x, %x) #0", "ROOT %n = f32[8]{0} negate(%m) #1")
    dumps = (("first", "dce", before), ("second", "pipeline-start", after))
    fate = judged(equations, before, after, *dumps)["e0"]
    assert fate.by.startswith("after first / dce, before second")
    assert f"({fate.by})" in fate.sentence


def test_folded_while_compiling_and_before() -> None:
    equations = program(("iota", "", "iota"), ("mul", "a0 a0", "multiply"), ("add", "x a1", "add"))
    before = text(
        "%i = f32[8]{0} iota(), iota_dimension=0 #0",
        "%m = f32[8]{0} multiply(%i, %i) #1",
        "ROOT %a = f32[8]{0} add(%x, %m) #2",
    )
    after = text(
        "%c = f32[8]{0} constant({0, 1, 4, 9, 16, 25, 36, 49})",
        "ROOT %a = f32[8]{0} add(%x, %c) #2",
    )
    by_equation = judged(equations, before, after, ("simplify", "constant_folding", after))
    assert {by_equation["e0"].name, by_equation["e1"].name} == {"folded"}
    assert by_equation["e1"].by == "constant_folding"
    constants = program(
        ("broadcast_in_dim", "", "constant"), ("mul", "a0 a0", "multiply"), ("add", "x a1", "add")
    )
    early = text("%c = f32[8]{0} constant({...})", "ROOT %a = f32[8]{0} add(%x, %c) #2")
    by_equation = judged(constants, early, early)
    assert (by_equation["e1"].name, by_equation["e1"].by) == ("folded", "conversion to HLO")


def test_what_nothing_reads_in_hlo_is_dead_by_dce() -> None:
    equations = program(("sin", "x", "sine"), ("cos", "x", "cosine"))
    before = text("%s = f32[8]{0} sine(%x) #0", "ROOT %c = f32[8]{0} cosine(%x) #1")
    after = text("ROOT %c = f32[8]{0} cosine(%x) #1")
    fate = judged(equations, before, after, ("simplify", "dce", after))["e0"]
    assert (fate.name, fate.by, fate.sentence) == (
        "dead",
        "dce",
        "Dead: nothing reads it, by dce.",
    )


@pytest.mark.parametrize(
    ("primitive", "name", "words"),
    [
        ("stop_gradient", "dropped", "hands its operand on unchanged (f32[8])"),
        ("neg", "dead", "no op computes it"),
        ("some_library_primitive", "dropped", "it needs no op of its own"),
    ],
)
def test_an_equation_that_made_no_op(primitive: str, name: str, words: str) -> None:
    both = text("ROOT %t = f32[8]{0} tanh(%x) #1")
    fate = judged(program((primitive, "x", ""), ("tanh", "a0", "tanh")), both, both)["e0"]
    assert (fate.name, fate.by) == (name, "lowering")
    assert words in fate.sentence


def test_where_no_ids_came_through_absence_proves_nothing() -> None:
    equations = program(("neg", "x", ""), ("tanh", "a0", "tanh"))
    both = text("ROOT %t = f32[8]{0} tanh(%x)")
    by_equation = judged(equations, both, both)
    assert by_equation["e0"].name == "unknown"
    assert "no exact ids" in by_equation["e0"].sentence


def test_dumps_without_changes_are_not_blamed() -> None:
    equations = program(("div", "x x", "divide"), ("neg", "a0", "negate"))
    before = text("%d = f32[8]{0} divide(%x, %x) #0", "ROOT %n = f32[8]{0} negate(%d) #1")
    after = text("%m = f32[8]{0} multiply(%x, %x) #0", "ROOT %n = f32[8]{0} negate(%m) #1")
    dumps = (("simplify", "dce", before), ("simplify", "algsimp", after))
    assert judged(equations, before, after, *dumps)["e0"].index == 2


def test_equations_that_share_a_line_are_looked_up_once(monkeypatch) -> None:
    # Without stamps a line's equations have all its ops: of 600 in an optimiser, 360,000 lookups.
    n = 40
    equations = program(*(("mul", "x x", "multiply") for _ in range(n)))
    ops = [node.id for node in equations[1].nodes()]
    monkeypatch.setattr(Evidence, "_ops", lambda self: {f"e{i}": tuple(ops) for i in range(n)})
    lookups = []
    find = Evidence._left
    monkeypatch.setattr(Evidence, "_left", lambda self, key: lookups.append(key) or find(self, key))
    after = text(
        *(f"%m{i} = f32[8]{{0}} multiply(%x, %x) #{i}" for i in range(n - 1)),
        "ROOT %t = f32[8]{0} tanh(%x)",
    )
    judged(equations, after, after)
    assert lookups == [tuple(ops)]


def test_equations_that_cannot_be_told_apart_share_one_sentence(monkeypatch) -> None:
    equations = program(*(("mul", "x x", "multiply") for _ in range(3)))
    ops = [node.id for node in equations[1].nodes()]
    monkeypatch.setattr(Evidence, "_ops", lambda self: {f"e{i}": tuple(ops) for i in range(3)})
    exact = property(lambda self: False, lambda self, _: None)
    monkeypatch.setattr(Evidence, "exact", exact, raising=False)
    after = text(
        *(f"%m{i} = f32[8]{{0}} multiply(%x, %x) #{i}" for i in range(2)),
        "ROOT %m2 = f32[8]{0} multiply(%x, %x) #2",
    )
    assert judged(equations, after, after)["e1"].sentence == (
        "The 3 equations of its line, which have no ids here, together: kept: runs as m0, m1, m2 "
        "(multiply)."
    )
