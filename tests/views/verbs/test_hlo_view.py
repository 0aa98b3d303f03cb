"""What `%%hlo` shows by default and for each option, and what it says of missing stages."""

import pytest

from jaxlens.errors import OptionError, UnavailableError
from jaxlens.render.document import Diff, Findings, Fold, Listing, PassSteps, Tabs
from jaxlens.render.text.document_text import text
from tests.support import fixed_captures as fixed
from tests.support.documents import hlo as document


def blocks(found, kind):
    return [block for block in found.blocks if isinstance(block, kind)]


def words(line):
    return "".join(piece.text for piece in line.pieces)


def test_tabs_by_default():
    shown = document(fixed.capture())
    assert shown.taken.startswith("layer(x, w, b) with x f32[4,8]")
    assert [tab.title for tab in blocks(shown, Tabs)[0].tabs] == [
        "Your code",
        "StableHLO",
        "HLO before optimisation",
        "Before and after fusion",
        "Optimised HLO",
        "Passes",
    ]
    said = [finding.text for finding in blocks(shown, Findings)[0].findings]
    assert said[-1] == "It runs as 2 kernels and 1 library call."


def test_the_diff_shows_each_fusion_with_what_it_swallowed():
    diff = blocks(document(fixed.capture(), fusion=True), Tabs)[0].tabs[0].blocks[0]
    first, second, same = diff.groups
    assert first.title == (
        "max_fusion f32[4,2]: loop, 4 operations from cell 3:2 and cell 3:3, by fusion"
    )
    pairs = [(row.left and row.left.id, row.right and row.right.id) for row in first.rows]
    assert pairs == [
        (None, "max_fusion"),
        ("bias.1", "bias.5"),
        ("add.1", "add.5"),
        ("zeros", "zeros.5"),
        ("max.1", "max.5"),
    ]
    assert first.rows[2].note == "computed in gt_fusion too"
    assert second.rows[-1].left.id == "gt.1"
    assert [row.left.id for row in same.rows] == ["dot.1", "out"]
    assert not same.open
    assert "Constants inside fusions are left out." in diff.note


def test_full_leaves_nothing_out():
    diff = blocks(document(fixed.capture(), fusion=True, full=True), Tabs)[0].tabs[0].blocks[0]
    assert [row.right.id for row in diff.groups[0].rows].count("zero.5") == 1
    assert "metadata" in words(diff.groups[0].rows[1].left)


def test_one_stage_alone():
    shown = document(fixed.capture(), stage="optimized")
    program, graph = blocks(shown, Tabs)[0].tabs
    assert (program.key, graph.key) == ("optimized", "graph")
    assert (program.in_text, graph.in_text) == (True, False)
    (listing,) = program.blocks
    assert "max_fusion" in {line.id for line in listing.lines}


@pytest.mark.parametrize("names", [("hlo", "optimized"), ("optimized", "hlo"), ("1", "fusion")])
def test_any_two_programs_are_compared_in_order_of_time(names):
    shown = document(fixed.capture(), diff=names)
    diff = blocks(shown, Diff)[0]
    assert diff.groups[0].title.startswith("max_fusion")
    said = blocks(shown, Findings)[0].findings[0].text
    assert said == "11 instructions before, 21 after: 6 fused, 2 added."


def test_a_pass_shows_what_it_changed_and_the_program_after_it():
    shown = document(fixed.capture(), pass_name="fusion")
    said = [finding.text for finding in blocks(shown, Findings)[0].findings]
    assert said[0] == ("2: fuse / fusion: 6 fused, 2 added; 11 instructions before, 21 after.")
    assert said[1].startswith("Joins producers with consumers")
    assert blocks(shown, Fold)[0].title == "The program after it"


def test_passes_alone():
    shown = document(fixed.capture(), passes=True)
    (steps,) = blocks(shown, PassSteps)
    assert [table.title for table in steps.tables] == ["Passes", "What they are for"]
    assert [(step.index, step.size) for step in steps.steps] == [(0, 11), (2, 21)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stage": "optimised"}, "no stage 'optimised'; did you mean 'optimized'?"),
        ({"pass_name": "fusio"}, "no pass or HLO stage 'fusio'; did you mean 'fusion'?"),
        ({"pass_name": "77"}, "no pass or HLO stage '77'; choose from hlo, optimized, fusion"),
        ({"pass_name": "hlo"}, "'hlo' is a stage; expected the name or number of a pass"),
        ({"diff": ("hlo", "optimzed")}, "no pass or HLO stage 'optimzed'; did you mean"),
    ],
)
def test_a_wrong_name_gets_one_line_with_the_nearest(options, message):
    with pytest.raises(OptionError) as caught:
        document(fixed.capture(), **options)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_what_a_backend_does_not_give_is_a_sentence_in_its_place():
    found = document(fixed.capture("optimized", "passes"))
    tabs = {tab.title: tab for tab in blocks(found, Tabs)[0].tabs}
    for title in ("Your code", "Before and after fusion", "Optimised HLO", "Passes"):
        shown = tabs[title].blocks[0]
        assert isinstance(shown, Findings)
        assert "this backend gives no" in shown.findings[0].text
    assert isinstance(tabs["HLO before optimisation"].blocks[0], Listing)


def test_what_is_asked_for_alone_and_not_given_is_an_error():
    with pytest.raises(UnavailableError, match="no optimized"):
        document(fixed.capture("optimized"), stage="optimized")


def test_the_text_is_the_same_from_run_to_run():
    first, second = (text(document(fixed.capture())) for _ in range(2))
    assert first == second
    assert "computed in gt_fusion too" in first
