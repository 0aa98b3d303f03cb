"""Growths fitted to curves whose law is known, and limits between points."""

import pytest

from jaxlens.errors import OptionError
from jaxlens.ir.run.sweep import SweepFigures, SweepRow
from jaxlens.lenses.memory.capacity import capacity, refusal
from jaxlens.lenses.sweep.facts import Series, fit, growth

N = [8, 16, 32, 64, 128]


def test_a_line_is_found_with_what_does_not_grow():
    found = growth(N, [1000 + 7 * n for n in N])
    assert (found.kind, found.first, found.last, found.points) == ("line", 8, 128, 5)
    assert found.base == pytest.approx(1000)
    assert found.slope == pytest.approx(7)


def test_a_line_may_begin_later():
    found = growth(N, [max(500, 1000 + 7 * (n - 32)) if n >= 32 else 999 for n in N])
    assert (found.kind, found.first, found.points) == ("line", 32, 3)


def test_a_square_is_a_power_of_two():
    found = growth(N, [3 * n**2 for n in N])
    assert found.kind == "power"
    assert found.power == pytest.approx(2)


@pytest.mark.parametrize("values", [[1, 9, 2, 30, 4], [0, 1, 2, 3, 4]])
def test_what_follows_no_law_has_no_growth(values):
    assert growth(N, values) is None
    assert growth(N[:2], [1, 2]) is None


def rows(limit, *sizes):
    figures = [SweepFigures(reserved=size) for size in sizes]
    whole = enumerate(zip(figures, sizes, strict=True))
    made = [SweepRow({"x": str(n)}, (n,), f, fits=size <= limit) for n, (f, size) in whole]
    return Series((), tuple(2.0**n for n in range(len(sizes))), tuple(made))


def test_a_limit_is_met_between_two_points():
    found = fit(rows(30, 10, 20, 40))
    assert found.largest[0] == 2
    assert found.next[0] == 4
    assert fit(rows(5, 10, 20, 40)).largest is None
    assert fit(rows(100, 10, 20, 40)).next is None
    assert fit(rows(15, 20, 10)) is None  # it falls


def test_what_xla_refuses_does_not_fit():
    known = rows(30, 10, 20)
    refused = SweepRow({"x": "4"}, (2,), error="RESOURCE_EXHAUSTED: ...", fits=False)
    found = fit(Series((), (1.0, 2.0, 4.0), (*known.rows, refused)))
    assert found.largest[0] == 2
    assert found.next == (4.0, refused)


def test_xlas_refusals_are_read():
    said = refusal(
        RuntimeError(
            "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO "
            "temporaries (16.41G) exceeds available HBM (15.75G)."
        )
    )
    assert said.least == round(16.41 * 2**30)
    assert said.text.startswith("Ran out of memory on HBM, the total")
    assert said.text.endswith("available HBM (15.75G)")
    assert refusal(RuntimeError("INTERNAL: (3G)")) is None


@pytest.mark.parametrize(
    ("limit", "size"),
    [(1000, 1000), ("16 GB", 16e9), ("15.75GiB", 15.75 * 2**30), ("500 kB", 5e5), ("7", 7)],
)
def test_limits_are_read(limit, size):
    assert capacity(limit).bytes == size
    assert capacity(limit).usable == size


def test_a_gpu_has_the_share_that_jax_takes():
    h100 = capacity("gpu:h100")
    # A real one reports 85,017,493,504 bytes, and JAX limits itself to 63,763,906,560.
    assert (h100.bytes, h100.usable) == (pytest.approx(85_017_493_504, rel=1e-4),
                                         pytest.approx(63_763_906_560, rel=1e-4))  # fmt: skip
    assert h100.words == "the 63.8 GB that JAX takes by default of the 85 GB of H100 SXM"
    assert capacity("tpu:v5e:2x2").usable == 16e9


@pytest.mark.parametrize("wrong", ["h1000", "", 0, -5, "GB"])
def test_a_wrong_limit_is_one_line(wrong):
    with pytest.raises(OptionError, match="a limit is a device, bytes or a size"):
        capacity(wrong)
