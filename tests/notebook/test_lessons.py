"""Committed lessons have outputs, no widget state, and no paths of a machine."""

import re

import nbformat
import pytest

from tests.support.paths import ROOT

TOUR = ROOT / "notebooks" / "00_tour.ipynb"
LESSONS = [TOUR, *sorted((ROOT / "notebooks" / "course").glob("*.ipynb"))]


def outputs(book):
    return [output for cell in book.cells for output in cell.get("outputs", [])]


@pytest.fixture(params=LESSONS, ids=lambda path: path.name)
def book(request):
    return nbformat.read(request.param, as_version=4)


def test_there_are_lessons():
    assert len(LESSONS) >= 2


def test_has_run(book):
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    shown = [o for o in outputs(book) if "text/html" in o.get("data", {})]
    assert len(shown) >= (1 if len(code) == 1 else 3)


def test_holds_no_widget(book):
    assert "widgets" not in book.metadata
    assert not any("widget" in mime for o in outputs(book) for mime in o.get("data", {}))


def test_shows_text_beside_html(book):
    pages = [o.data for o in outputs(book) if "text/html" in o.get("data", {})]
    assert all("text/plain" in data for data in pages)


def test_the_tour_shows_pictures():
    tour = nbformat.read(TOUR, as_version=4)
    pages = [o.data for o in outputs(tour) if "text/html" in o.get("data", {})]
    assert any("src='data:image/svg+xml," in data["text/html"] for data in pages)


def test_names_no_machine(book):
    text = nbformat.writes(book)
    assert not re.search(r"/home/|/root/|/tmp/|/Users/|ipykernel_\d|site-packages", text)


def test_runs_in_order(book):
    assert not any(o.output_type == "error" for o in outputs(book))
