"""A collective in several fusions is one instruction: its bytes count once, and what they hand on
from one to the next counts in none."""

import pytest

from jaxlens.ir.hlo.async_fusions import async_fusion, waits
from jaxlens.ir.hlo.traffic import Traffic
from jaxlens.program.kernel_cost import instruction_costs
from jaxlens.program.kernels import inside
from tests.support import fixed_captures as fixed

MODULE = fixed.module(fixed.SPLIT_GATHERS)
NODES = {node.id: node for node in MODULE.nodes()}


@pytest.mark.parametrize(
    ("fusion", "part", "computes", "read", "written"),
    [
        # A device's 16 bytes from VMEM, and those of all four.
        ("first.p", "start", ["gather.p.1"], {1: 16}, {0: 64}),
        ("next.p", "beside", ["wave.p"], {0: 64}, {0: 64}),
        ("last.p", "done", [], {}, {}),
        ("first.q", "start", ["gather.q.1"], {1: 32}, {0: 128}),
        ("next.q", "beside", ["wave.q"], {0: 64}, {0: 64}),
        ("last.q", "done", [], {}, {}),
    ],
)
def test_each_fusion_has_its_own_work_alone(fusion, part, computes, read, written) -> None:
    node = NODES[fusion]
    sent = async_fusion(node, MODULE)
    assert sent is not None
    assert sent.part == part
    assert waits(node, MODULE) is (part == "done")
    assert [inner.id for inner in inside(node, MODULE) if inner.opcode != "tuple"] == computes
    moved = Traffic(MODULE).moved(node)
    assert (moved.read, moved.written) == (read, written)


def test_what_a_fusion_hands_on_is_an_operand_of_it() -> None:
    sent = async_fusion(NODES["next.p"], MODULE)
    assert sent is not None
    assert sent.passed == {0, 1, 2}  # all but what the sine is of
    assert sent.handed == {1: "first.p.0", 2: "first.p.1", 3: "first.p.1", 4: "first.p.2"}


def test_a_fusion_with_a_whole_collective_is_no_part_of_one() -> None:
    text = """HloModule m

f (a: f32[8]) -> f32[2] {
  a = f32[8] parameter(0)
  s = f32[8] all-reduce(a), channel_id=1, to_apply=add
  z = s32[] constant(0)
  ROOT d = f32[2] dynamic-slice(s, z), dynamic_slice_sizes={2}
}

ENTRY e (p: f32[8]) -> f32[2] {
  p = f32[8] parameter(0)
  ROOT r = f32[2] fusion(p), kind=kCustom, calls=f
}
"""
    module = fixed.module(text)
    fusion = next(node for node in module.nodes() if node.id == "r")
    assert async_fusion(fusion, module) is None
    assert not waits(fusion, module)


def test_the_ends_cost_nothing_and_the_starts_travel() -> None:
    costs = {cost.instruction: cost for cost in instruction_costs(MODULE, "tpu")}
    assert [*costs] == ["copy.p", "copy.q", "first.p", "next.p", "first.q", "next.q"]
    assert {id for id, cost in costs.items() if cost.travels} == {"first.p", "first.q"}
    assert not any(cost.unknown for cost in costs.values())


def test_slices_that_are_copied_beside_each_other_are_one_array() -> None:
    text = """HloModule m, is_scheduled=true

ENTRY e (p: f32[8]) -> f32[8] {
  p = f32[8]{0} parameter(0)
  a-start = ((f32[8]{0}), f32[4]{0:S(1)}, s32[]) slice-start(p), slice={[0:4]}
  b-start = ((f32[8]{0}), f32[4]{0:S(1)}, s32[]) slice-start(p), slice={[4:8]}
  a = f32[4]{0:S(1)} slice-done(a-start)
  b = f32[4]{0:S(1)} slice-done(b-start)
  whole = f32[8]{0:S(1)} custom-call(a, b), custom_call_target="ConcatBitcast"
  ROOT r = f32[8]{0} negate(whole)
}
"""
    costs = {c.instruction: c.memories for c in instruction_costs(fixed.module(text), "tpu")}
    half = {"HBM": 16, "VMEM": 16}
    assert costs == {"a-start": half, "b-start": half, "r": {"HBM": 32, "VMEM": 32}}
