"""Memory traffic saved by fusion on hand-written HLO, and XLA's reasons in records of a GPU."""

from dataclasses import replace

import pytest

import jaxlens
from jaxlens.ir.hlo import fusion_log
from jaxlens.ir.hlo.traffic import Traffic
from jaxlens.questions.fusion import facts as fusion
from jaxlens.questions.fusion import report as fusion_report
from jaxlens.render.html.document_html import html
from jaxlens.render.text.document_text import text
from tests.support import documents
from tests.support import fixed_captures as fixed
from tests.support.paths import RECORDS, TEXTS

GPU = sorted(path.name for path in RECORDS.glob("*.gpu*.jaxlens"))
ALL = sorted(path.name for path in RECORDS.glob("*.jaxlens"))
HEAD = "HloModule m\n\nENTRY %e (p: f32[8,4], i: s32[]) -> f32[8,4] {\n  %p = f32[8,4]{1,0} parameter(0)\n  %i = s32[] parameter(1)\n"  # noqa: E501


def test_what_fusing_saved_is_counted_by_hand() -> None:
    facts = fusion.facts(fixed.capture())
    # max_fusion f32[4,2], the first of two that compute the sum. One by one, in bytes:
    # broadcast of b 8 + 32, add 32 + 32 + 32, broadcast of 0 4 + 32, maximum 32 + 32 + 32 = 268;
    # as one it reads dot.1 and b and writes its result: 32 + 8 + 32 = 72.
    # gt_fusion repeats both broadcasts and the sum: what else it holds is the comparison,
    # 32 + 32 + 8 = 72; as one it moves 32 + 8 + 8 = 48.
    saved = {one.id: (one.saved, one.repeated) for one in facts.fusions}
    assert saved == {"max_fusion": (268 - 72, 0), "gt_fusion": (72 - 48, 3)}
    assert facts.saved == 196 + 24
    assert (facts.before, facts.after, facts.wrapped) == (6, 3, 0)
    assert [one.id for one in facts.fusions] == ["max_fusion", "gt_fusion"]


def test_what_still_travels_and_why() -> None:
    facts = fusion.facts(fixed.capture())
    (edge,) = facts.boundaries
    assert facts.moved == (128 + 64 + 32) + 72 + 48  # dot.1, and both fusions as above
    assert (edge.producer, edge.consumers) == ("dot.1", ("max_fusion", "gt_fusion"))
    assert edge.bytes == 32 * 3  # written once, read twice
    assert edge.why == "dot.1 is a library call; 2 kernels read it"
    assert edge.trust == "counted"
    # No fusion of six spares a fifth, and no value of six is a fifth of what travels.
    (fused, _), (value,) = facts.fusions, facts.boundaries
    spread = replace(facts, fusions=(fused,) * 6, boundaries=(value,) * 6)
    first, second, *_ = fusion_report.report(spread).findings
    assert first.text.endswith("6 fusions of several operations.")
    text = "576 B of it travel between kernels in 6 values, none of which is a fifth."
    assert second.text == text


@pytest.mark.parametrize(
    ("line", "moved"),
    [
        ("ROOT %r = f32[8,4]{1,0} tanh(%p)", 128 + 128),
        ("ROOT %r = f32[8,4]{1,0} add(%p, %p)", 128 + 128),  # read once
        ("ROOT %r = f32[1,4]{1,0} dynamic-slice(%p, %i, %i), dynamic_slice_sizes={1,4}", 36),
        ("ROOT %r = f32[2,4]{1,0} slice(%p), slice={[0:2], [0:4]}", 2 * 32),
        ("ROOT %r = f32[8,4]{1,0} bitcast(%p)", 0),
    ],
)
def test_bytes_of_an_instruction_by_itself(line: str, moved: int) -> None:
    module = fixed.module(f"{HEAD}  {line}\n}}\n")
    traffic = Traffic(module)
    assert traffic.alone(traffic.nodes["r"]) == moved


def test_a_part_that_is_put_in_place_is_all_that_moves() -> None:
    module = fixed.module(
        HEAD + "  %one = f32[1,4]{1,0} slice(%p), slice={[0:1], [0:4]}\n"
        "  ROOT %r = f32[8,4]{1,0} dynamic-update-slice(%p, %one, %i, %i)\n}\n"
    )
    traffic = Traffic(module)
    assert traffic.alone(traffic.nodes["r"]) == 2 * 16 + 4  # and the index


STEPS = (TEXTS / "fusion_steps.txt").read_text()


def test_decisions_are_read_and_what_is_unknown_is_passed_over() -> None:
    kept = fusion_log.steps_text(STEPS)
    assert kept == STEPS[: STEPS.index("gpu_device_info")]
    assert fusion_log.refusals(kept) == {"x": 'the \\"consumer\\" is not fusible'}
    later = kept.replace('producer_name: "a"', 'producer_name: "x"')
    assert fusion_log.refusals(later) == {}  # it was fused after all
    assert fusion_log.refusals("") == {}


@pytest.mark.parametrize("name", GPU)
def test_records_of_a_gpu_hold_the_reasons_of_xla(name: str) -> None:
    capture = jaxlens.load(RECORDS / name)
    log = capture.fusion_log
    reasons = fusion_log.refusals(log)
    facts = fusion.facts(capture)
    after = {node.id for node in capture.optimized.module.nodes()}
    assert set(facts.refused) <= after
    assert set(facts.refused.values()) <= set(reasons.values())
    said = [edge for edge in facts.boundaries if edge.trust == "xla"]
    assert said
    assert all(edge.why == f'XLA: "{facts.refused[edge.producer]}"' for edge in said)
    words = " ".join(finding.text for finding in fusion_report.report(facts).findings)
    assert "XLA refused to fuse" in words


@pytest.mark.parametrize("name", ALL)
def test_every_record_is_answered(name: str) -> None:
    capture = jaxlens.load(RECORDS / name)
    facts = fusion.facts(capture)
    nodes = {node.id: node for node in capture.optimized.module.nodes()}
    assert {one.id for one in facts.fusions} <= nodes.keys()
    assert all(len(one.operations) > 1 and one.saved >= 0 for one in facts.fusions)
    assert facts.saved > 0
    assert all(edge.producer in nodes and edge.bytes >= 0 for edge in facts.boundaries)
    shown = documents.hlo(capture, fusion=True)
    assert "A run moves" in text(shown)
    assert len(html(shown)) < 100_000
    if name not in GPU:
        assert facts.why_not
        assert not any(edge.trust == "xla" for edge in facts.boundaries)
