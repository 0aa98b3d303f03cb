"""Memory by kind, and the values that temporaries are for."""

import fixed_captures as fixed

from jaxlens.ir.buffers import read
from jaxlens.lenses.memory import largest, memory


def test_sizes_stand_in_one_sentence_and_a_table() -> None:
    report = memory(fixed.capture())
    assert report.findings[0].text == "Memory: arguments 200 B, outputs 40 B, temporaries 96 B."
    assert [(row[0].text, row[1].text) for row in report.tables[0].rows] == [
        ("arguments", "200 B"), ("outputs", "40 B"), ("temporaries", "96 B"), ("aliases", "0 B"),
    ]  # fmt: skip


def test_the_largest_temporaries_have_their_lines() -> None:
    report = memory(fixed.capture())
    assert [[cell.text for cell in row] for row in report.tables[1].rows] == [
        ["dot.1", "f32[4,2]", "32 B", "<cell 3>:2"],
        ["gt_fusion", "pred[4,2]", "8 B", "<cell 3>:2 and <cell 3>:3"],
    ]
    assert [b.instruction for b in largest(read(fixed.BUFFERS), 1)] == ["dot.1"]


def test_the_moment_of_greatest_need_is_named() -> None:
    said = memory(fixed.capture()).findings[1].text
    # dot.1 lives until gt_fusion has run: 32 + 8 of the 96 bytes.
    assert said.startswith("The temporaries need most, 40 B of the 96 B reserved, when gt_fusion")


def test_without_a_buffer_assignment_the_sizes_stay() -> None:
    report = memory(fixed.capture("buffers"))
    assert len(report.tables) == 1
    assert "this backend gives no buffers" in report.findings[1].text
    assert report.findings[1].trust == "unknown"
