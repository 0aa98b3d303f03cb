"""Committed lessons have outputs, no widget state, and no paths of a machine."""

import re

import nbformat
import pytest

from tests.support.paths import ROOT

TOUR = ROOT / "notebooks" / "00_tour.ipynb"
LESSONS = [TOUR, *sorted((ROOT / "notebooks" / "course").glob("*.ipynb"))]


def outputs(book):
    return [output for cell in book.cells for output in cell.get("outputs", [])]


def test_there_are_lessons():
    assert len(LESSONS) >= 2


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.name)
def test_a_lesson_has_run_and_is_whole(path):
    text = path.read_text()
    assert not re.search(r"/home/|/root/|/tmp/|/Users/|ipykernel_\d|site-packages", text)
    book = nbformat.reads(text, as_version=4)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    datas = [output.get("data", {}) for output in outputs(book)]
    shown = [data for data in datas if "text/html" in data]
    assert len(shown) >= (1 if len(code) == 1 else 3)
    assert all("text/plain" in data for data in shown)
    assert "widgets" not in book.metadata
    assert not any("widget" in mime for data in datas for mime in data)
    assert not any(output.output_type == "error" for output in outputs(book))


def test_the_tour_shows_pictures():
    datas = [output.get("data", {}) for output in outputs(nbformat.read(TOUR, as_version=4))]
    assert any("src='data:image/svg+xml," in data.get("text/html", "") for data in datas)
