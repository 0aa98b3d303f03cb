"""Buffer assignment and live ranges: a recorded compile, and rules on short text."""

import re

import pytest

from jaxlens.errors import ReadError
from jaxlens.ir.hlo import buffers
from tests.support.paths import RECORDS

ASSIGNMENT = (RECORDS / "scan_grad.buffers.txt").read_text()
LIVE = (RECORDS / "scan_grad.live.txt").read_text()

SHORT = """BufferAssignment:
allocation 0: size 64, parameter 0, shape |f32[16]| at ShapeIndex {}, maybe-live-out:
 value: <1 p @0> (size=64,offset=0): f32[16]{0}
allocation 1: size 8, output shape is |(f32[], f32[])|, maybe-live-out:
 value: <9 tuple.5{} @0> (size=8,offset=0): (f32[], f32[])
allocation 2: size 4, constant:
 value: <2 c @0> (size=4,offset=0): f32[]
allocation 3: size 4, thread-local:
 value: <3 r.1{1,0} (phi) @5> (size=4,offset=0): f32[]
allocation 4: size 192, preallocated-temp:
 value: <4 a @0> (size=64,offset=0): f32[16]{0}
 value: <5 b @0> (size=64,offset=64): f32[16]{0}
 value: <6 c2 @0> (size=64,offset=0): f32[16]{0}
 value: <7 d @0> (size=32,offset=128): f32[8]{0}
 value: <8 in_place @0> (size=64,offset=64): f32[16]{0}
something else
"""
RANGES = """HloLiveRange (max 9):
  InstructionSequence:
    0:p
    1:a
    2:b
    3:c2
    4:in_place
  BufferLiveRange:
    a{}:1-2
    b{}:2-4
    c2{}:3-6
    in_place{}:4-6
    d{}:7-8
  Live ranges at 2 (peak):
    a{}: 64 bytes (cumulative: 64 bytes)
    b{}: 64 bytes (cumulative: 128 bytes)
  Stack trace breakdown for peak usage: 128 bytes
    main (100.0%)
      └── a
"""


def test_the_page_that_newer_versions_write_changes_no_kind() -> None:
    paged = buffers.read(re.sub(r"(: size \d+)", r"\1, page 0", SHORT))
    assert paged.allocations == buffers.read(SHORT).allocations


def test_kinds_of_allocations():
    assignment = buffers.read(SHORT)
    kinds = [(a.kind, a.live_out) for a in assignment.allocations]
    assert kinds == [
        ("parameter", True),
        ("output", True),
        ("constant", False),
        ("thread-local", False),
        ("temporary", False),
    ]
    assert assignment.unknown == ("something else",)
    assert assignment.bytes("temporary") == 192
    phi = assignment.allocations[3].buffers[0]
    assert (phi.instruction, phi.index, phi.space) == ("r.1", "1,0", 5)
    assert str(assignment.allocations[1].buffers[0].type) == "(f32[], f32[])"


def test_live_ranges():
    assignment = buffers.read(RANGES)
    assert assignment.order == ("p", "a", "b", "c2", "in_place")
    assert assignment.ranges[1] == buffers.LiveRange("b", "", 2, 4)
    assert assignment.unknown == ()


def test_a_recorded_compile():
    assignment = buffers.read(ASSIGNMENT + "\n" + LIVE)
    assert assignment.unknown == ()
    assert [a.kind for a in assignment.allocations].count("parameter") == 2
    assert assignment.bytes("parameter") == 4 * (16 * 16 + 20 * 16)
    known = set(assignment.order)
    for allocation in assignment.allocations:
        for buffer in allocation.buffers:
            assert buffer.offset + buffer.size <= allocation.size
            assert allocation.kind == "thread-local" or buffer.instruction in known
            if buffer.type.parts == ():
                assert buffer.type.bytes == buffer.size


def test_other_text_is_refused():
    with pytest.raises(ReadError, match="expected XLA's buffer assignment"):
        buffers.read("HloModule m")
