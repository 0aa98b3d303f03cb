"""Flops and bytes of kernels against numbers counted by hand, and what bounds them."""

import re
from dataclasses import replace

import pytest

import jaxlens
from jaxlens.errors import OptionError, UnavailableError
from jaxlens.ir.facts import Limits
from jaxlens.ir.trips import RunCount, runs
from jaxlens.program.kernel_cost import kernel_costs
from jaxlens.program.published_limits import PUBLISHED, published
from jaxlens.questions.cost import view as cost_view
from jaxlens.questions.cost.roofline import facts, limits_of, points, roofline
from tests.support import fixed_captures as fixed
from tests.support.paths import CAPTURES, RECORDS, TEXTS

ROOF = Limits("a slow one", {"f32": 100.0}, None, 10.0, "made up")


def costs(text: str):
    """Kernels of a program given as HLO, by instruction."""
    cap = fixed.capture("kernels")
    cap.driver._stages["optimized"] = fixed.stage("optimized", text)
    return {kernel.instruction: kernel for kernel in kernel_costs(cap)}


LOOP = (TEXTS / "loop_of_products.hlo.txt").read_text()


def test_a_loops_kernels_count_for_every_trip():
    assert runs(fixed.module(LOOP)) == {
        "main": RunCount(1),
        "body": RunCount(100),
        "cond": RunCount(101),
    }
    by_name = costs(LOOP)
    assert sorted(by_name) == ["dot", "less", "stacked", "taken"]
    assert (by_name["stacked"].once, by_name["stacked"].flops) == (64, 6400)
    assert by_name["less"].flops == 101
    unsure = costs(LOOP.replace('"known_trip_count"', '"nothing"'))["stacked"]
    assert (unsure.runs, unsure.open, unsure.flops) == (1, ("loop",), 64)


def test_of_what_is_sliced_only_the_slice_is_read_and_written():
    by_name = costs(LOOP)
    assert (by_name["taken"].read, by_name["taken"].written) == (64 * 4 + 4, 64 * 4)
    # In the place of the array that it updates: the new row is read and written.
    assert (by_name["stacked"].read, by_name["stacked"].written) == (64 * 4 + 4, 64 * 4)
    assert by_name["stacked"].bytes == 100 * (2 * 64 * 4 + 4)


def test_a_matrix_product_by_hand():
    dot = costs(LOOP)["dot"]
    assert dot.flops == 2 * 100 * 32 * 64
    assert dot.bytes == 4 * (100 * 64 + 64 * 32 + 100 * 32)
    assert dot.intensity == pytest.approx(409_600 / 46_592)
    assert (dot.product, dot.dtype) == (True, "f32")


CONV = """HloModule m

ENTRY main (x: f32[2,8,8,3], k: f32[3,3,3,4]) -> f32[2,8,8,4] {
  %x = f32[2,8,8,3] parameter(0)
  %k = f32[3,3,3,4] parameter(1)
  ROOT %conv = f32[2,8,8,4] convolution(%x, %k), window={WINDOW}, LABELS
}
""".replace("WINDOW", "size=3x3 pad=1_1x1_1").replace("LABELS", "dim_labels=b01f_01io->b01f")


def test_a_convolution_by_hand():
    # Along one side 8 places with 3 taps, less one at each end: 22 pairs.
    assert costs(CONV)["conv"].flops == 2 * 2 * 4 * 3 * 22 * 22


def test_the_fixed_layer_by_hand():
    by_name = {kernel.name: kernel for kernel in kernel_costs(fixed.capture())}
    assert by_name["dot.1"].flops == 2 * 4 * 8 * 2
    # The bias is added in both fusions, then each does one operation per element.
    assert by_name["max_fusion"].flops == by_name["gt_fusion"].flops == 2 * 8
    assert sum(kernel.flops for kernel in by_name.values()) == 160  # XLA's own figure


def test_a_kernel_is_bound_by_what_takes_longer():
    dot, less = (costs(LOOP)[name] for name in ("dot", "less"))
    first, second = points((less, dot), ROOF)
    assert first.kernel is dot
    # 409,600 flops at 100 a second; 46,592 bytes at 10 a second.
    assert (first.bound, first.seconds) == ("memory", 4659.2)
    fast = Limits("fast memory", {"f32": 100.0}, None, 1e6)
    assert points((dot,), fast)[0].bound == "compute"
    assert points((dot,), fast)[0].seconds == 4096.0
    assert second.seconds == pytest.approx(101 * 9 / 10)


def test_products_and_the_rest_have_limits_of_their_own():
    h100 = published("h100")
    assert h100.flops("bf16", True) > h100.flops("f32", True) > h100.flops("f32", False)
    assert h100.flops("c64", True) == h100.flops("f32", True)
    assert published("TPU v5 lite") is PUBLISHED["v5e"]
    assert published("NVIDIA H100 80GB HBM3") is h100
    assert published("NVIDIA A100-SXM4-40GB").memory == published("A100-40GB").memory == 40e9
    for other in ("NVIDIA H100 PCIe", "h100-nvl"):
        with pytest.raises(OptionError, match="those of the SXM card differ"):
            published(other)
    assert published("tpu:v6e:2x2") is PUBLISHED["v6e"]
    with pytest.raises(OptionError, match="no published limits of 'h300' here; did you mean"):
        published("h300")
    assert h100.source == (
        "NVIDIA H100 Tensor Core GPU datasheet; of products half of its figures with sparsity "
        "(for bf16 1,979 Tflop/s), that of f64 as it is"
    )
    for limits in PUBLISHED.values():  # a figure that was halved is twice that of the table
        published_as = re.search(r"bf16 ([\d,]+) Tflop", limits.source)
        if published_as:
            assert int(published_as[1].replace(",", "")) * 1e12 / 2 == limits.products["bf16"]
    for name, limits in PUBLISHED.items():
        assert limits.source, name
        assert 0.2e12 < limits.bandwidth < 1e13
        assert all(1e13 < rate < 1e16 for rate in limits.products.values())


@pytest.mark.parametrize("path", CAPTURES, ids=lambda p: p.stem)
def test_records_of_all_devices(path):
    cap = jaxlens.load(path)
    answer = jaxlens.cost(cap, roofline="h200")
    assert answer.findings[0].text.startswith("programs.py:")
    assert " does " in answer.findings[0].text
    assert sum(answer.by_line.values()) == answer.flops
    assert answer.kernels
    drawn = cost_view.picture(answer.facts)
    assert drawn.svg.count("<circle") >= 1
    assert drawn.text == cost_view.picture(answer.facts).text
    assert str(answer) == str(jaxlens.cost(cap, roofline="h200"))


def test_here_is_what_the_record_was_made_for():
    gpu = jaxlens.load(RECORDS / "mlp_step.gpu-h100.jaxlens")
    assert limits_of(gpu, "here") is PUBLISHED["h100"]
    assert not any(
        "it would make others" in f.text for f in jaxlens.cost(gpu, roofline="here").findings
    )
    assert any("it would make others" in f.text for f in jaxlens.cost(gpu, roofline="l4").findings)
    with pytest.raises(UnavailableError, match="name a device"):
        limits_of(jaxlens.load(RECORDS / "mlp_step.cpu.jaxlens"), "here")


def test_measured_times_stand_in_tables_that_a_comparison_leaves_out():
    cap = fixed.capture()
    seconds = {"dot.1": 0.003, "max_fusion": 0.001}
    known = replace(facts(cap), limits=ROOF, seconds=seconds)
    report = roofline(known)
    tables = {table.title: table for table in report.tables}
    by_line = tables["Measured by line"]
    assert [(row[0].text, row[2].text) for row in by_line.rows] == [
        ("cell 3:2", "75%"),
        ("cell 3:3", "25%"),
    ]
    each = tables["Measured by kernel"]
    assert [row[0].text for row in each.rows] == ["dot.1", "max_fusion"]
    assert each.rows[0][4].text == f"{128 / 0.003 / 1000:.3g} kflop/s"
    assert "1 kernel left no mark" in each.note
    assert by_line.volatile
    assert each.volatile
    assert known.points[0].rate == pytest.approx(128 / 0.003)


def test_without_a_compiled_program_the_equations_stay():
    cap = fixed.capture()
    cap.driver._stages.pop("optimized")
    known = facts(cap)
    assert known.kernels == ()
    assert known.flops == 152
    assert roofline(known).tables == ()
