"""Progress: one file, joined on write, and a line to paste."""

import json

import pytest

import jaxlens
from jaxlens.course import progress_file
from jaxlens.course.library import ids_of, modules
from jaxlens.course.predict import predictions
from jaxlens.errors import OptionError
from jaxlens.ir.lessons import LESSONS


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch):
    empty = {kind: set() for kind in progress_file.KINDS}
    monkeypatch.setattr(progress_file, "_memory", empty)


def test_a_record_is_read_again(tmp_path):
    progress_file.record("solved", "9.1", tmp_path)
    assert progress_file.read(tmp_path / progress_file.FILE)["solved"] == ["9.1"]
    stored = json.loads((tmp_path / progress_file.FILE).read_text())
    assert stored["version"] == 3


def test_two_kernels_lose_nothing(tmp_path, monkeypatch):
    progress_file.record("solved", "9.1", tmp_path)
    monkeypatch.setattr(progress_file, "_memory", {k: set() for k in progress_file.KINDS})
    progress_file.record("solved", "12.2", tmp_path)
    assert progress_file.read(tmp_path / progress_file.FILE)["solved"] == ["9.1", "12.2"]


def test_a_shown_solution_counts_no_more(tmp_path):
    progress_file.record("solved", "9.1", tmp_path)
    progress_file.record("revealed", "9.1", tmp_path)
    progress_file.record("solved", "9.3", tmp_path)
    progress = jaxlens.course.progress(tmp_path)
    assert progress.score == 1
    # As many as the rows of the lessons give.
    assert str(progress).startswith("2 of ")
    assert "puzzles solved, 1 of them with the solution shown; 30 lessons" in str(progress)
    assert "2 of 5" in str(progress)


@pytest.mark.parametrize(
    ("version", "solved", "predicted"),
    [
        (1, ["7.1", "20.2"], ["26.b", "1.b"]),
        (2, ["7.1", "20.1"], ["26.c", "1.b"]),
        (3, ["9.1", "22.1"], ["28.c", "2.a"]),
    ],
)
def test_ids_of_a_file_of_an_earlier_course_are_those_of_now(tmp_path, version, solved, predicted):
    stored = {"version": version, "solved": solved, "predicted": predicted}
    (tmp_path / progress_file.FILE).write_text(json.dumps(stored))
    progress_file.record("solved", "10.1", tmp_path)
    assert jaxlens.course.progress(tmp_path).solved == {"9.1", "10.1", "22.1"}
    assert progress_file.current(tmp_path).predicted == {"28.c", "2.a"}


def test_ids_that_moved_are_those_of_the_course():
    """Of version 2 the numbers of puzzles and of predictions in each lesson, from the first."""
    puzzles = map(int, "2142435323443544323414352423")
    asked = map(int, "5343554552343435343444333333")
    before = [
        f"{lesson}.{last}"
        for lesson, (digits, letters) in enumerate(zip(puzzles, asked, strict=True), 1)
        for last in ("12345"[:digits] + "abcde"[:letters])
    ]
    now = [progress_file.renumbered(id, 2) for id in before]
    assert len(set(now)) == len(before) == 89 + 103
    assert {*modules(), *predictions()} - set(now) == {"2.1"}
    assert set(now) <= {*modules(), *predictions()}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"solved": 3}', '{"solved": [1, "9.1"]}'])
def test_a_broken_file_is_no_error(tmp_path, text):
    (tmp_path / progress_file.FILE).write_text(text)
    progress_file.record("solved", "10.1", tmp_path)
    assert "10.1" in jaxlens.course.progress(tmp_path).solved


@pytest.mark.parametrize("text", ['{"solved": ["9.1", "9.2"', "[]", "\xff"])
def test_a_damaged_file_is_kept(tmp_path, capsys, text):
    (tmp_path / progress_file.FILE).write_text(text, "latin-1")
    progress_file.record("solved", "10.1", tmp_path)
    progress_file.record("solved", "10.2", tmp_path)
    kept = tmp_path / f"{progress_file.FILE}.damaged"
    assert kept.read_text("latin-1") == text
    assert capsys.readouterr().out.count(kept.name) == 1
    assert progress_file.read(tmp_path / progress_file.FILE)["solved"] == ["10.1", "10.2"]


def test_where_nothing_can_be_written_it_stays_in_memory(tmp_path, capsys):
    missing = tmp_path / "missing"
    progress_file.record("solved", "9.1", missing)
    assert jaxlens.course.progress(missing).solved == {"9.1"}
    said = capsys.readouterr().out
    assert "could not be written here (No such file or directory)" in said
    assert "copy jaxlens.course.progress().code" in said


def test_the_line_of_one_session_goes_into_the_next(tmp_path, monkeypatch):
    progress_file.record("solved", "9.1", tmp_path)
    line = jaxlens.course.progress(tmp_path).code
    monkeypatch.setattr(progress_file, "_memory", {k: set() for k in progress_file.KINDS})
    other = tmp_path / "other"
    other.mkdir()
    assert jaxlens.course.paste(line, other).solved == {"9.1"}
    with pytest.raises(OptionError, match="copy the whole line"):
        jaxlens.course.paste(line[:-4], other)


def test_the_map_names_and_opens_every_lesson_and_says_what_needs_what(tmp_path):
    state = jaxlens.course.progress(tmp_path)
    text, page = state.text(full=True, width=200), state.html()
    for lesson in LESSONS:
        assert lesson.title in text
        assert page.count(f"<a href={lesson.file}.ipynb ") >= 2  # by part, and by what it needs
    assert "svg" in page
    (row,) = [line for line in text.splitlines() if "Which call compiles" in line]
    assert " ".join(row.split()).endswith(f"20 3, 8 0 of {len(ids_of(9))}")
    assert "19. Sums in a tree" in text
