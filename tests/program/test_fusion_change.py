"""The fate of each instruction: which fusion it is in, and which pass removed it."""

from dataclasses import replace

import pytest

from jaxlens.ir.graph import Type, Value
from jaxlens.links.match.instruction_fates import between
from jaxlens.program.fusion_change import (
    across_fusion,
    findings,
    first_fusing,
    operations,
    recomputed,
)
from jaxlens.program.sentences import Quoter, fusion_kind, lines_of, opcodes
from tests.support import fixed_captures as fixed

HEAD = "HloModule m\n\nENTRY %e (p: f32[4]) -> f32[4] {\n  %p = f32[4]{0} parameter(0)\n"


def program(*lines: str) -> str:
    return HEAD + "".join(f"  {line}\n" for line in lines) + "}\n"


def fates(before: str, after: str, *passes):
    change = between(fixed.module(before), fixed.module(after), passes)
    return {id: (fate.name, fate.by, fate.note) for id, fate in change.fates.items()}, change


def test_each_instruction_is_swallowed_by_the_fusions_that_hold_it() -> None:
    found, change = fates(fixed.BEFORE, fixed.AFTER)
    assert {id: found[id][0] for id in found} == {
        "x": "same",
        "w": "same",
        "b": "same",
        "dot.1": "same",
        "out": "same",
        "bias.1": "fused",
        "add.1": "fused",
        "zero": "fused",
        "zeros": "fused",
        "max.1": "fused",
        "gt.1": "fused",
    }
    assert change.contents == {
        "max_fusion": ("bias.5", "add.5", "zero.5", "zeros.5", "max.5"),
        "gt_fusion": ("bias.6", "add.6", "zero.6", "zeros.6", "gt.6"),
    }
    assert set(change.fates["add.1"].fusions) == {"max_fusion", "gt_fusion"}
    assert change.added == ("max_fusion", "gt_fusion")


def test_recomputation_is_counted_for_what_has_work() -> None:
    change, _ = across_fusion(fixed.capture())
    assert recomputed(change) == {"add.1": 2}  # a broadcast is free


def test_the_counter_of_a_loop_is_free_to_repeat() -> None:
    change, _ = across_fusion(fixed.capture())
    body = change.before.body()
    scalar = (Value("add.1", Type("s32", ())),)
    nodes = tuple(replace(n, results=scalar) if n.id == "add.1" else n for n in body.nodes)
    before = replace(change.before, regions={body.name: replace(body, nodes=nodes)})
    assert recomputed(replace(change, before=before)) == {}


def test_the_report_counts_operations_on_both_sides() -> None:
    change, _ = across_fusion(fixed.capture())
    summary, again = findings(change, Quoter({}))
    # dot, broadcast, add, broadcast, maximum, compare; then dot and two fusions.
    assert summary.text.startswith("Fusion joined 6 operations into 3: 2 fusions and 1 other")
    assert "add.1 (f32[4,2]) is computed 2 times, not stored: in max_fusion and gt" in again.text
    nodes = {node.id: node for node in change.after.nodes()}
    swallowed = [nodes[id] for id in change.contents["max_fusion"]]
    assert fusion_kind(nodes["max_fusion"]) == "loop"
    assert opcodes(swallowed) == "broadcast x 2, add, maximum"
    assert lines_of(swallowed) == ["cell 3:2", "cell 3:3"]
    copied = {head for id in recomputed(change) for head in change.fates[id].into}
    assert len(copied & set(change.contents["max_fusion"])) == 1
    assert len(operations(fixed.module(fixed.AFTER))) == 3


def test_before_fusion_is_found_by_effect_and_the_pass_is_named() -> None:
    assert first_fusing(fixed.dumps()) == 2
    assert first_fusing(fixed.dumps()[:2]) is None
    change, note = across_fusion(fixed.capture())
    assert change.fates["max.1"].by == "fusion"
    assert note.startswith("Before: the program before fusion, the first pass that fused. After:")


def test_without_dumps_hlo_before_optimisation_is_compared_and_nobody_blamed() -> None:
    change, note = across_fusion(fixed.capture("passes"))
    assert change.fates["max.1"].name == "fused"
    assert change.fates["max.1"].by == ""
    assert "this backend gives no passes" in note


def test_long_dumps_are_not_read_and_the_note_says_so() -> None:
    change, note = across_fusion(fixed.capture(), limit=10)
    assert change.fates["max.1"].by == ""
    assert "Passes are not named" in note


DIV, MULTIPLY = (
    f'ROOT {name} = f32[4] {opcode}(p, p), metadata={{op_name="f/div"}}'
    for name, opcode in (("d", "divide"), ("m", "multiply"))
)


@pytest.mark.parametrize(
    ("before", "after", "id", "fate", "note"),
    [
        (
            ("a = f32[4] tanh(p)", "b = f32[4] tanh(p)", "ROOT r = f32[4] add(a, b)"),
            ("a = f32[4] tanh(p)", "ROOT r = f32[4] add(a, a)"),
            *("b", "merged", "with a"),
        ),
        (
            ("c = f32[4] constant({1,2,3,4})", "n = f32[4] negate(c)", "ROOT r = f32[4] add(p, n)"),
            ("m = f32[4] constant({-1,-2,-3,-4})", "ROOT r = f32[4] add(p, m)"),
            *("n", "folded", "into m"),
        ),
        (
            ("d = f32[4] tanh(p)", "ROOT r = f32[4] negate(p)"),
            ("ROOT r = f32[4] negate(p)",),
            *("d", "removed", "dead: nothing read it"),
        ),
        (
            ("u = f32[4] negate(p)", "v = f32[4] negate(u)", "ROOT r = f32[4] tanh(v)"),
            ("ROOT r = f32[4] tanh(p)",),
            *("u", "removed", "gone with what read it"),
        ),
        (
            (
                *("k = f32[4] tanh(p)", "o = f32[4] abs(k)", "v = f32[4] negate(o)"),
                "ROOT r = f32[4] add(v, k)",
            ),
            ("k = f32[4] tanh(p)", "ROOT r = f32[4] add(k, k)"),
            *("v", "removed", "k is read in its place"),
        ),
        ((DIV,), (MULTIPLY,), *("d", "rewritten", "divide became multiply")),
    ],
)
def test_fates(before, after, id, fate, note) -> None:
    earlier, later = program(*before), program(*after)
    found, _ = fates(earlier, later, fixed.dump(1, "pipe", "some-pass", later))
    assert found[id] == (fate, "some-pass", note)


def test_what_a_dump_that_opens_a_pipeline_shows_is_blamed_on_an_interval() -> None:
    before, after = (
        program("ROOT %r = f32[4]{0} tanh(%p)"),
        program("ROOT %s = f32[4]{0} exponential(%p)"),
    )
    steps = (
        fixed.dump(1, "first", "dce", before),
        fixed.dump(2, "second", "pipeline-start", after),
    )
    found, _ = fates(before, after, *steps)
    assert found["r"][0] == "removed"
    assert "first / dce" in found["r"][1]
    assert "second" in found["r"][1]


def test_dumps_on_the_way_carry_what_the_two_ends_do_not_show() -> None:
    before = program("ROOT %r = f32[4]{0} divide(%p, %p)")
    middle = program('ROOT %r = f32[4]{0} divide(%p, %p), metadata={op_name="f/div"}')
    after = program('ROOT %z = f32[4]{0} multiply(%p, %p), metadata={op_name="f/div"}')
    alone, _ = fates(before, after)
    through, change = fates(
        before,
        after,
        fixed.dump(1, "pipe", "stamper", middle),
        fixed.dump(2, "pipe", "algsimp", after),
    )
    assert alone["r"][0] == "removed"
    assert through["r"] == ("rewritten", "algsimp", "divide became multiply")
    assert change.relation.out("r")[0].how == "inferred"


def test_a_kind_of_which_there_is_none_is_not_counted() -> None:
    fused = between(fixed.module(fixed.BEFORE), fixed.module(fixed.AFTER))
    same = between(fixed.module(fixed.BEFORE), fixed.module(fixed.BEFORE))
    assert "into 3: 2 fusions and 1 other (" in findings(fused, Quoter({}))[0].text
    assert "6 operations into 6: no fusion among them (" in findings(same, Quoter({}))[0].text
