"""The pass timeline: counts, hidden dumps, meanings."""

import fixed_captures as fixed
import pytest

from jaxlens.errors import UnavailableError
from jaxlens.lenses.passes import GLOSSARY, passes


def test_a_dump_that_changed_something_has_a_row_with_counts() -> None:
    report = passes(fixed.capture())
    assert report.findings[0].text == (
        "1 dump of 2 changed the program: 11 instructions before, 21 after."
    )
    assert [[cell.text for cell in row] for row in report.tables[0].rows] == [
        ["2", "fusion", "11", "21", "6 fused, 2 added"]
    ]
    assert [row[0].text for row in report.tables[1].rows] == ["fusion"]


def test_dumps_without_a_change_are_shown_on_demand() -> None:
    rows = passes(fixed.capture(), everything=True).tables[0].rows
    assert [row[-1].text for row in rows] == ["no change", "6 fused, 2 added"]


def test_a_backend_without_dumps_says_so() -> None:
    with pytest.raises(UnavailableError, match="no passes"):
        passes(fixed.capture("passes"))


def test_meanings_are_sentences() -> None:
    assert all(text.endswith(".") and text[0].isupper() for text in GLOSSARY.values())


def test_long_dumps_are_only_named() -> None:
    report = passes(fixed.capture(), limit=10)
    assert "--passes reads them" in report.findings[0].text
    assert [[cell.text for cell in row] for row in report.tables[0].rows] == [["2", "fusion"]]
