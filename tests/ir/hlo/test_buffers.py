"""Buffer assignment and live ranges: a recorded compile, and rules on short text."""

import re

import pytest

from jaxlens.errors import ReadError
from jaxlens.ir.hlo import buffers
from tests.support.paths import RECORDS, TEXTS

ASSIGNMENT = (RECORDS / "scan_grad.buffers.txt").read_text()
LIVE = (RECORDS / "scan_grad.live.txt").read_text()

SHORT = (TEXTS / "allocations.txt").read_text()
RANGES = (TEXTS / "live_ranges.txt").read_text()


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
