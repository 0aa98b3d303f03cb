"""Records of CPU, TPU and GPU contain stamps: every instruction is linked."""

from itertools import combinations

import pytest

from jaxlens.captures import Capture, load
from tests.support.paths import CAPTURES, RECORDS

pytestmark = pytest.mark.reads_jax


@pytest.fixture(scope="module", params=CAPTURES, ids=lambda path: path.stem)
def record(request: pytest.FixtureRequest) -> Capture:
    return load(request.param)


def test_every_instruction_reaches_a_line_and_every_fate_is_known(record: Capture) -> None:
    coverage = record.links.coverage()
    assert coverage.counted[0] > 20
    assert coverage.instructions == coverage.equations == 1.0, coverage.missing


def test_no_text_shows_a_stamp(record: Capture) -> None:
    for name in ("jaxpr", "stablehlo", "hlo", "optimized"):
        assert "_jl" not in record.stage(name).text
    assert not any("_jl" in dump.stage.text for dump in record.passes)


def test_an_equation_is_followed_into_what_computes_it_and_back(record: Capture) -> None:
    fates = record.links.fates()
    for id, fate in fates.items():
        for instruction in fate.instructions:
            assert id in record.links.back(instruction, "jaxpr", at="optimized"), fate


def test_links_are_the_same_in_both_directions(record: Capture) -> None:
    links = record.links
    stages = ("source", "jaxpr", "stablehlo", "hlo", "optimized", "kernels")
    linked = links.linked("optimized")
    ids = {stage: links._atoms(linked, stage) for stage in stages}
    for one, other in combinations(stages, 2):
        there = {(id, to) for id in ids[one] for to in links.forward(id, other, one)}
        back = {(to, id) for id in ids[other] for to in links.back(id, one, other)}
        assert there == back, (one, other)


@pytest.mark.parametrize(
    ("name", "became"),
    [
        ("exchanges", {"reduce_scatter": "reduce_scatter.7", "psum": "psum.9"}),
        ("psum_step", {"psum": "all-reduce"}),  # XLA combined the sums of both layers
    ],
)
def test_a_collective_of_a_shard_map_is_no_op_of_its_reducer(name, became) -> None:
    capture = load(RECORDS / f"{name}.tpu-v5e-2x2.jaxlens")
    fates = capture.links.fates()
    sums = [node for node in capture.jaxpr.module.nodes() if node.opcode in became]
    assert {node.opcode for node in sums} == {*became}
    for node in sums:
        assert fates[node.id].name == "kept"
        assert fates[node.id].instructions == (became[node.opcode],)
        assert node.id in capture.links.back(became[node.opcode], "jaxpr", at="optimized")
