"""Live ranges that follow from the schedule are those that XLA gives, on recorded compiles."""

import dataclasses
import re

import pytest

import jaxlens
from jaxlens.errors import ReadError
from jaxlens.ir.hlo import buffers, reader
from jaxlens.ir.hlo.live_ranges import live, spaces
from jaxlens.ir.hlo.scheduled_ranges import completed
from tests.support.paths import RECORDS

# A loop on two devices, exchanges that are waited for, and copies between memories.
CAPTURES = (
    "scan_rnn.gpu-h100.jaxlens",
    "exchanges.tpu-v5e-2x2.jaxlens",
    "scan_rnn.tpu-v5e-2x2.jaxlens",
)
BRANCHES = """HloModule m, is_scheduled=true

%left (a.1: (f32[16])) -> (f32[16]) {
  %a.1 = (f32[16]{0}) parameter(0)
  %x.1 = f32[16]{0} get-tuple-element(%a.1), index=0
  %y.1 = f32[16]{0} negate(%x.1)
  ROOT %t.1 = (f32[16]{0}) tuple(%y.1)
}

%right (a.2: (f32[16])) -> (f32[16]) {
  ROOT %a.2 = (f32[16]{0}) parameter(0)
}

ENTRY %main (p: s32[], x: f32[16]) -> f32[16] {
  %p = s32[] parameter(0)
  %x = f32[16]{0} parameter(1)
  %c = f32[16]{0} copy(%x)
  %t = (f32[16]{0}) tuple(%c)
  %if = (f32[16]{0}) conditional(%p, %t, %t), branch_computations={%left, %right}
  %g = f32[16]{0} get-tuple-element(%if), index=0
  ROOT %r = f32[16]{0} OPCODE(%g)
}
"""
ASSIGNMENT = """BufferAssignment:
allocation 0: size 64, maybe-live-out:
 value: <1 r @0> (size=64,offset=0):
allocation 1: size 64:
 value: <2 c @0> (size=64,offset=0):
 value: <3 y.1 @0> (size=64,offset=0):
 value: <4 if{0} @0> (size=64,offset=0):
allocation 2: size 64, parameter 1, shape || at ShapeIndex {}:
 value: <5 x @0> (size=64,offset=0):
allocation 3: size 4, parameter 0, shape || at ShapeIndex {}:
 value: <6 p @0> (size=4,offset=0):
allocation 4: size 24:
 value: <7 t{} @0> (size=8,offset=0):
 value: <8 t.1{} @0> (size=8,offset=8):
 value: <9 if{} @0> (size=8,offset=16):
"""


def branches(opcode="exponential", **changes):
    text = BRANCHES.replace("OPCODE", opcode)
    for old, new in changes.items():
        text = text.replace(f"%{old} =", f"%{new} =")
    return reader.read(text, stage="optimized")


def ranges_of(text):
    assignment = buffers.read(text)
    # Arguments are the caller's: what XLA says of them is not used.
    owned = [a.buffers for a in assignment.allocations if a.kind == "parameter"]
    inputs = {buffer.instruction for shared in owned for buffer in shared}
    return {
        (r.instruction, r.index): (r.start, r.end)
        for r in assignment.ranges
        if r.instruction not in inputs
    }


@pytest.mark.parametrize("name", [*CAPTURES, "scan_grad"])
def test_they_are_xla_s(name):
    if name == "scan_grad":
        module = reader.read((RECORDS / "scan_grad.hlo.txt").read_text(), stage="optimized")
        text = "\n".join((RECORDS / f"scan_grad.{n}.txt").read_text() for n in ("buffers", "live"))
    else:
        capture = jaxlens.load(RECORDS / name)
        module, text = capture.optimized.module, capture.buffers
    bare = re.sub(r"(?m)^( value: .*\):) .*$", r"\1", text.partition("HloLiveRange")[0])
    made = completed(bare, module)
    assert ranges_of(made) == ranges_of(text)
    ours, xla = buffers.read(made), buffers.read(text)
    assert [str(b.type) for a in ours.allocations for b in a.buffers] == [
        str(b.type) for a in xla.allocations for b in a.buffers
    ]
    assert ours.order == xla.order
    assert ours.unknown == ()
    for space in (0, *spaces(xla)):
        one, other = live(ours, space), live(xla, space)
        assert (one.bytes, one.position) == (other.bytes, other.position)
        assert [v.buffer for v in one.at_peak] == [
            dataclasses.replace(v.buffer, type=w.buffer.type)
            for v, w in zip(other.at_peak, one.at_peak, strict=True)
        ]


def test_a_value_of_a_branch_ends_the_one_in_its_place():
    ranges = ranges_of(completed(ASSIGNMENT, branches()))
    # c at 2, y.1 in the first branch at 6, the other branch at 8, the conditional at 9.
    assert [ranges[place] for place in (("c", ""), ("y.1", ""), ("if", "0"), ("r", ""))] == [
        (2, 6),
        (6, 9),
        (9, 11),
        (11, 12),
    ]


@pytest.mark.parametrize(
    ("module", "assignment", "why"),
    [
        (branches("new-done"), ASSIGNMENT.replace("<1 r", "<1 c"), "what new-done forwards"),
        (branches(), ASSIGNMENT.replace("<1 r", "<1 z"), "'z'"),
        (branches(), ASSIGNMENT.replace("(size=64", "(size=32"), "32 bytes"),
        (branches(g="u"), ASSIGNMENT, "'g'"),
        (
            reader.read(BRANCHES.replace("=true", "=false"), stage="optimized"),
            ASSIGNMENT,
            "no sched",
        ),
    ],
)
def test_what_does_not_follow_is_not_known(module, assignment, why):
    with pytest.raises(ReadError, match=why):
        completed(assignment, module)
