"""What a learner answered: kept in the folder, asked again, shared with a teacher."""

import json
from time import monotonic

import pytest

import jaxlens
from jaxlens.course import attempts, class_report, progress_file
from jaxlens.course.attempts import Attempt
from jaxlens.course.predict import predictions
from jaxlens.errors import OptionError


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch, tmp_path):
    monkeypatch.setattr(progress_file, "_memory", {kind: set() for kind in progress_file.KINDS})
    monkeypatch.chdir(tmp_path)


def test_answers_are_kept_in_their_order_and_what_is_solved_is_progress(tmp_path):
    jaxlens.course.predict("2.a", 7)
    jaxlens.course.predict("2.a", 6)
    attempts.note(Attempt("9.1", False, hints=1))
    attempts.note(Attempt("9.1", True, hints=2))
    assert attempts.read(tmp_path / attempts.FILE) == [
        Attempt("2.a", False, "7"),
        Attempt("2.a", True, "6"),
        Attempt("9.1", False, hints=1),
        Attempt("9.1", True, hints=2),
    ]
    progress = jaxlens.course.progress()
    assert (progress.solved, progress.record.predicted) == ({"9.1"}, {"2.a"})
    assert "; 0 of 2 answers right at the first try" in str(progress).partition("\n")[0]


def test_a_wrong_answer_of_a_puzzle_is_an_attempt(tmp_path):
    jaxlens.course.hint("1.1")
    jaxlens.course.check("1.1", {})
    (attempt,) = attempts.read(tmp_path / attempts.FILE)
    assert (attempt.id, attempt.right) == ("1.1", False)
    assert attempt.hints >= 1


@pytest.mark.parametrize(
    "line",
    ["", "[]", "{", '{"id": 3}', '{"id": "x", "right": true, "answer": "", "hints": 0}', "\xff"],
)
def test_lines_that_hold_something_else_are_passed_over(tmp_path, line):
    file = tmp_path / attempts.FILE
    file.write_text(f"{line}\n", "latin-1")
    attempts.note(Attempt("2.a", True, "6"))
    assert attempts.read(file) == [Attempt("2.a", True, "6")]


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ([], ["8.e", "3.c", "7.b"]),  # lesson 9 builds on 8 and 3
        ([Attempt("2.a", False, "7")], ["2.a", "8.e", "3.c"]),
        ([Attempt("2.a", False, "7"), Attempt("2.a", True, "6")], ["8.e", "3.c", "7.b"]),
        ([Attempt("11.a", False, "1"), Attempt("8.1", False)], ["8.e", "3.c", "7.b"]),
    ],
)
def test_what_was_wrong_is_asked_first(given, asked):
    assert attempts.to_ask_again(9, predictions(), given) == asked


def test_a_recall_shows_questions_and_no_answers():
    attempts.note(Attempt("2.a", False, "7"))
    text = str(jaxlens.course.recall(9))
    assert text.startswith("Before lesson 9, 3 questions from earlier ones\n")
    assert "How many operations do the two equations" in text
    assert "Your answer: %predict 2.a ..." in text
    assert "makes six" not in jaxlens.course.recall(9).text(full=True)
    with pytest.raises(OptionError, match="lessons 2 to 30"):
        jaxlens.course.recall(1)


def test_a_teacher_reads_what_was_shared_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setitem(attempts._begun, "2.a", monotonic() - 250)
    for name, answers in {"ann": "76", "bob": "7", "cem": "7", "dia": "6"}.items():
        home = tmp_path / name
        home.mkdir()
        for answer in answers:
            attempts.note(Attempt("2.a", answer == "6", answer), home)
        attempts.note(Attempt("1.b", True, "1"), home)
        if name != "cem":
            attempts.share(home)
    lines = list(class_report.report(tmp_path))
    at = lines.index("right at the first try, of 3 who shared their answers, hardest first:")
    assert lines[at + 1 :][0] == "2.a: 1 of 3, 2 said 7, right after 4 min"
    with pytest.raises(OptionError, match="holds no answers yet"):
        attempts.share(tmp_path / "nobody")


def test_a_shared_answer_is_text_on_a_terminal(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        entry = {"id": "2.a", "right": False, "answer": "\x1b[31m7", "hints": 0}
        (tmp_path / name / attempts.SHARED).write_text(json.dumps(entry))
    assert any("2 said" in line and "\x1b" not in line for line in class_report.report(tmp_path))
