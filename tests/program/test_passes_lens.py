"""The pass timeline: counts, hidden dumps, meanings."""

import pytest

from jaxlens.captures import load
from jaxlens.errors import UnavailableError
from jaxlens.program.passes import instructions, meaning, report, steps
from tests.support import fixed_captures as fixed
from tests.support.paths import CAPTURES


def passes(capture, everything=False, limit=None):
    return report(capture.passes, steps(capture.passes, limit), everything)


def test_dumps_without_a_change_are_shown_on_demand() -> None:
    rows = passes(fixed.capture(), everything=True).tables[0].rows
    assert [row[-1].text for row in rows] == ["no change", "6 fused, 2 added"]


def test_a_backend_without_dumps_says_so() -> None:
    with pytest.raises(UnavailableError, match="no passes"):
        passes(fixed.capture("passes"))


@pytest.mark.parametrize("record", CAPTURES, ids=lambda p: p.stem)
def test_every_pass_that_changed_a_recorded_program_has_a_sentence(record) -> None:
    told = {stage.name: meaning(stage) for stage in load(record).passes if stage.changed}
    assert [name for name, sentence in told.items() if not sentence.endswith(".")] == []


def test_long_dumps_are_counted_and_not_compared() -> None:
    answer = passes(fixed.capture(), limit=10)
    assert [[cell.text for cell in row] for row in answer.tables[0].rows] == [
        ["2", "fusion", "11", "21", ""]
    ]
    assert answer.tables[0].note.endswith(
        "Of 1 dump (0.0 MB) instructions were counted, no more: --passes says what each did."
    )


@pytest.mark.parametrize("record", CAPTURES, ids=lambda p: p.stem)
def test_instructions_are_counted_without_reading(record) -> None:
    for stage in load(record).passes:
        spelt_out = [node for node in stage.stage.module.nodes() if "#" not in node.id]
        assert instructions(stage.stage.text) == len(spelt_out)
