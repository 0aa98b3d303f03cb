"""Trip counts of loops in HLO: XLA's own, and those derived from a counting loop."""

import pytest

from jaxlens.ir.trips import trips
from tests.support import fixed_captures as fixed
from tests.support.paths import TEXTS

COUNTS = (TEXTS / "counting_loop.hlo.txt").read_text()


def counted(text: str) -> int | None:
    module = fixed.module(text)
    region = module.body()
    (loop,) = [node for node in region.nodes if node.opcode == "while"]
    return trips(loop, region, module)


def test_a_loop_that_counts() -> None:
    assert counted(COUNTS) == 7


def test_what_xla_says_goes_first() -> None:
    said = 'body=%body, backend_config={"known_trip_count":{"n":"128"},"known_init_step":{}}'
    assert counted(COUNTS.replace("body=%body", said)) == 128


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%zero = s32[] constant(0)", "%zero = s32[] constant(2)"),
        ("copy(%zero)", "copy(%q)"),
        ("%one = s32[] constant(1)", "%one = s32[] constant(2)"),
        ("add(%one, %held)", "multiply(%one, %held)"),
        ("add(%one, %held)", "add(%held, %held)"),
        ("tuple(%y, %next)", "tuple(%y, %i)"),
        ("direction=LT", "direction=NE"),
        ("compare(%j, %n)", "compare(%n, %j)"),
        ("%n = s32[] constant(7)", "%n = s32[] get-tuple-element(%t), index=1"),
    ],
)
def test_what_only_looks_like_it_is_unknown(old: str, new: str) -> None:
    assert old in COUNTS
    assert counted(COUNTS.replace(old, new)) is None
