"""Puzzles are as their authors say: starters fail, wrong answers get hints, solutions pass."""

import re
from pathlib import Path

import pytest

import jaxlens
from jaxlens.course.library import modules, puzzles
from jaxlens.ir.lessons import BY_NUMBER, LESSONS
from tests.support.paths import python

README = Path(jaxlens.__file__).parent / "course" / "README.md"
LESSONS_WITH_PUZZLES = sorted({int(id.split(".")[0]) for id in modules()})


@pytest.fixture(scope="module")
def checked():
    """What the command says of all puzzles: one process, as each takes long to start."""
    return python("-m", "jaxlens", "course", "check", *modules())


@pytest.mark.backend
@pytest.mark.parametrize("lesson", LESSONS_WITH_PUZZLES)
def test_answers_are_judged_as_they_must_be(checked, lesson):
    lines = [line.split(maxsplit=2) for line in checked.stdout.splitlines()]
    for puzzle in [puzzle for puzzle in puzzles() if puzzle.lesson == lesson]:
        judged = [line for line in lines if line[1:2] == [puzzle.id]]
        kinds = [line[2].partition("  ")[0] for line in judged]
        wrong = [f"wrong {number}" for number, _ in enumerate(puzzle.wrong, 1)]
        cheats = [f"cheat {number}" for number, _ in enumerate(puzzle.cheats, 1)]
        made = ["two faces", "changed", "remembered", "one shape"]
        wanted = ["starter", *wrong, *cheats, "solution", *made]
        assert kinds == wanted, checked.stderr[-2000:]
        assert [line for line in judged if line[0] != "ok"] == []


@pytest.mark.backend
def test_the_check_of_all_puzzles_succeeds(checked):
    assert checked.returncode == 0, checked.stdout[-2000:] + checked.stderr[-2000:]


def test_ids_are_those_of_the_files():
    for id, name in modules().items():
        lesson, number = id.split(".")
        assert f".p{int(lesson):02}_{number}_" in name
    assert [puzzle.id for puzzle in puzzles()] == list(modules())


def test_each_puzzle_fits_a_screen_and_has_three_hints():
    for puzzle in puzzles():
        assert len(puzzle.task.strip().splitlines()) <= 14, puzzle.id
        assert len(set(puzzle.hints)) == 3, puzzle.id
        assert puzzle.lesson in BY_NUMBER
        assert puzzle.starter != puzzle.solution
        assert puzzle.cheats or puzzle.saves, puzzle.id  # own JAX runs random programs instead
        assert all(entry.says for entry in (*puzzle.wrong, *puzzle.cheats)), puzzle.id


def test_lessons_need_only_earlier_ones():
    for number, lesson in enumerate(LESSONS, 1):
        assert lesson.number == number
        assert all(need < number for need in lesson.needs)
        assert re.fullmatch(r"\d\d_[a-z_]+", lesson.file)


@pytest.mark.backend
def test_the_puzzle_of_the_readme_is_right(tmp_path):
    text = README.read_text()
    path = tmp_path / "mine.py"
    path.write_text(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1])
    done = python("-m", "jaxlens", "course", "try", path)
    assert done.returncode == 0, done.stdout + done.stderr
