"""Bytes that travel inside a process and between processes, against sums by hand."""

import pytest

import jaxlens
from jaxlens.questions.sharding.facts import Collective, exchanges

TWO = (0, 0, 1, 1)  # the processes of four devices
ROWS, COLUMNS, ALL = ((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 1, 2, 3),)


@pytest.mark.parametrize(
    ("opcode", "groups", "trips", "inside", "between"),
    [
        ("all-reduce", ROWS, 1, 4 * 100, 0),  # 2 x 1/2 of 100 bytes, four times
        ("all-reduce", COLUMNS, 1, 0, 4 * 100),
        ("all-reduce", ALL, 1, 2 * 150, 2 * 150),  # two of four edges
        ("all-reduce", ALL, 3, 6 * 150, 6 * 150),
        ("all-gather", ALL, 1, 2 * 75, 2 * 75),
        ("reduce-scatter", COLUMNS, 1, 0, 4 * 50),
        ("all-to-all", ALL, 1, 4 * 25, 8 * 25),  # a quarter to each of three, two of them beyond
        ("all-to-all", ROWS, 1, 4 * 50, 0),
        ("collective-permute", ((0, 1), (1, 2), (2, 3), (3, 0)), 1, 200, 200),
        ("collective-permute", ((0, 0), (1, 3)), 1, 0, 100),
        ("collective-broadcast", ROWS, 1, 2 * 100, 0),
    ],
)
def test_against_sums_by_hand(opcode, groups, trips, inside, between):
    found = Collective("c", opcode, 100, groups, (), trips, ())
    assert found.between(TWO) == pytest.approx((inside, between))


def test_what_is_not_known_is_not_zero():
    assert Collective("c", "all-reduce", None, ALL, (), 1, ()).between(TWO) is None
    assert Collective("c", "all-reduce", 100, None, (), 1, ()).between(TWO) is None


RAGGED = """HloModule ragged, is_scheduled=true, num_partitions=4

ENTRY main {
  x = f32[16,8]{1,0} parameter(0)
  out = f32[16,8]{1,0} parameter(1)
  n = s32[4]{0} parameter(2)
  ROOT r = f32[16,8]{1,0} ragged-all-to-all(x, out, n, n, n, n), replica_groups={{0,1,2,3}}
}
"""


def test_what_a_ragged_exchange_sends_is_not_in_the_program():
    (found,) = exchanges(jaxlens.capture(RAGGED)).collectives
    assert (found.bytes, found.sent, found.between(TWO)) == (4 * 16 * 8, None, None)
