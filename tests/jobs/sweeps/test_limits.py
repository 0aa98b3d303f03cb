"""What a sweep says of its points, and of limits."""

import pytest

from jaxlens.errors import OptionError
from jaxlens.jobs.sweeps.points import SweepAxis, SweepFacts, SweepFigures, SweepRow
from jaxlens.jobs.sweeps.report import report
from jaxlens.program.published_limits import capacity, refusal


def grid(figures, row=lambda q, k: {}, limit=None):
    """Returns the sentences of a sweep over q and k: figures, and more, by both numbers."""
    numbers = (64, 128, 256)
    labels = tuple(map(str, numbers))
    axes = tuple(SweepAxis(name, labels, tuple(map(float, numbers)), name) for name in "qk")
    rows = [
        SweepRow({"q": str(q), "k": str(k)}, (n, m), figures(q, k), **row(q, k))
        for n, q in enumerate(numbers)
        for m, k in enumerate(numbers)
    ]
    facts = SweepFacts("f", axes, tuple(rows), capacity(limit) if limit else None)
    return [one.text for one in report(facts).findings]


def test_points_that_fit_are_counted_with_the_nearest_on_both_sides():
    def figures(q, k):
        return SweepFigures(reserved=1000 * k + q)

    said = grid(figures, row=lambda q, k: {"fits": k <= 128}, limit="150 kB")
    assert said[0] == (
        "6 of 9 points with a known memory fit 150 kB: the largest is q=256, k=128 with 128 kB; "
        "the smallest that does not is q=64, k=256 with 256 kB."
    )


def test_memory_grows_by_what_was_measured_at_both_ends():
    said = grid(lambda q, k: SweepFigures(reserved=q * q * k))
    assert said == [
        "From q = 64 to 256 (4 times), "
        "memory needed goes from 262 kB to 4.19 MB (16 times), with k=64.",
        "From k = 64 to 256 (4 times), "
        "memory needed goes from 262 kB to 1.05 MB (4 times), with q=64.",
    ]


def test_what_failed_is_not_said_to_fit():
    def row(q, k):
        return {"error": "TypeError: no"} if q == 256 else {"fits": True}

    said = grid(lambda q, k: SweepFigures(reserved=k), row=row, limit="1 GB")
    assert said[0] == (
        "6 of 6 points with a known memory fit 1 GB: the largest is q=64, k=256 with 256 B."
    )
    said = grid(lambda q, k: SweepFigures(reserved=k), lambda q, k: {"fits": False}, limit="10 B")
    assert said[0] == (
        "0 of 9 points with a known memory fit 10 B; the smallest that does not is q=64, k=64 "
        "with 64 B."
    )


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
    # Of memory: what was done with the rates of products is no part of it.
    assert h100.source == "what the device reports, which is sold as of 80 GB"
    assert capacity("b200").source == "NVIDIA Blackwell datasheet, a GPU of the HGX B200"
    assert capacity("v5p").source == "Google Cloud TPU documentation, TPU v5p page"


@pytest.mark.parametrize("wrong", ["h1000", "", 0, -5, "GB"])
def test_a_wrong_limit_is_one_line(wrong):
    with pytest.raises(OptionError, match="a limit is a device, bytes or a size"):
        capacity(wrong)
