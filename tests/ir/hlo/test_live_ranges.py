"""Live ranges over a buffer assignment: what is in use when, and when it is most."""

from jaxlens.ir.hlo import buffers
from jaxlens.ir.hlo.live_ranges import live, spaces
from tests.ir.hlo.test_buffers import ASSIGNMENT, LIVE, RANGES, SHORT


def test_the_peak_counts_a_place_once_and_arguments_and_constants_always():
    ranges = live(buffers.read(SHORT + RANGES))
    # p 64 and c 4 all the time; a 64 and b 64 at position 2; in_place lies in b's place.
    assert (ranges.bytes, ranges.position, ranges.instruction) == (64 + 4 + 64 + 64, 2, "b")
    assert [one.buffer.instruction for one in ranges.at_peak] == ["p", "a", "b", "c"]
    assert ranges.reserved == 64 + 8 + 4 + 192  # what threads keep to themselves is left out


def test_what_lies_in_a_results_memory_and_is_gone_before_the_end_is_temporary():
    text = SHORT.replace(
        "allocation 4: size 192, preallocated-temp:", "allocation 4: size 192, maybe-live-out:"
    )
    kinds = {
        one.buffer.instruction: (one.kind, one.holder)
        for one in live(buffers.read(text + RANGES)).values
    }
    assert kinds["a"] == ("temporary", "output")
    assert kinds["in_place"] == ("output", "output")


def test_values_without_a_live_range_are_left_out():
    text = SHORT + RANGES.replace("    d{}:7-8\n", "")
    # The tuple of results has none either.
    assert (
        len(live(buffers.read(text)).values) == len(live(buffers.read(SHORT + RANGES)).values) - 1
    )
    assert live(buffers.read(SHORT)) is None


def test_each_memory_space_has_a_peak_of_its_own():
    text = SHORT.replace("<5 b @0>", "<5 b @1>").replace("<7 d @0>", "<7 d @1>") + RANGES
    assignment = buffers.read(text)
    assert spaces(assignment) == (1,)  # what threads keep to themselves, in space 5, is left out
    assert live(assignment).bytes == 64 + 4 + 64 + 64  # in_place takes b's place later
    beside = live(assignment, 1)
    assert (beside.bytes, beside.position, beside.instruction) == (64, 2, "b")
    assert [(one.buffer.instruction, one.kind) for one in beside.at_peak] == [("b", "temporary")]
    empty = "allocation 9: size 512, color 1, page 0, preallocated-temp:\n"
    wider = buffers.read(text.replace("allocation 4:", f"{empty}allocation 4:"))
    assert live(wider).reserved == live(assignment).reserved
    assert live(wider, 1).reserved == live(assignment, 1).reserved + 512


def test_a_recorded_compile():
    ranges = live(buffers.read(ASSIGNMENT + "\n" + LIVE))
    assert 0.9 * ranges.reserved < ranges.bytes <= ranges.reserved
    assert sum(one.buffer.size for one in ranges.at_peak) == ranges.bytes
