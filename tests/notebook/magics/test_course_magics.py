"""`%%puzzle`, `%hint`, `%reveal`, `%%predict` and `%glossary` in a shell."""

import re

import pytest

from jaxlens.course.library import puzzle

pytestmark = [pytest.mark.backend, pytest.mark.notebook]

IMPORTS = "import jax, jax.numpy as jnp, numpy as np\nfrom jax import lax\n"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_right_answer(run):
    run(IMPORTS)
    ran = run(f"%%puzzle 9.1\n{puzzle('9.1').solution}").well()
    assert "Puzzle 9.1 is solved." in ran.out


def test_a_wrong_answer_names_the_fact(run):
    run(IMPORTS)
    ran = run(f"%%puzzle 9.1\n{puzzle('9.1').starter}")
    assert "compiles, wanted 1, got 2" in ran.out


def test_a_hole_that_is_left_is_said(run):
    hole = "A line of the cell is still `...`"
    assert hole in run(f"%%puzzle 3.1\n{puzzle('3.1').starter}").out
    assert hole not in run(f"%%puzzle 9.1\n{puzzle('9.1').starter}").out


def test_a_name_of_an_earlier_cell_does_not_count(run):
    run(IMPORTS + puzzle("9.1").solution)
    ran = run("%%puzzle 9.1\nx = 1")
    assert "must define `epochs`" in ran.out


def test_an_error_of_the_cell_is_the_users(run):
    ran = run("%%puzzle 9.1\n1 / 0")
    assert isinstance(ran.error, ZeroDivisionError)
    assert "Puzzle 9.1 is not solved" in ran.out


def test_own_jax_is_saved_and_built_upon(run, elsewhere):
    run(IMPORTS)
    run(f"%%puzzle 3.1\n{puzzle('3.1').solution}")
    text = (elsewhere / "my_jax.py").read_text()
    assert "# puzzle 3.1" in text
    ran = run(f"%%puzzle 9.5\n{puzzle('9.5').solution}")
    assert "Puzzle 9.5 is solved." in ran.out
    assert (elsewhere / "my_jax.py").read_text().count("# puzzle") == 2


def test_a_check_may_ask_for_what_own_jax_has_from_before(run):
    run(IMPORTS)
    ran = run(f"%%puzzle 12.2\n{puzzle('12.2').solution}")
    assert "Puzzle 12.2 is solved." in ran.out


def test_hints_come_one_by_one_and_then_the_solution(run):
    shown = [run("%hint 9.1").out for _ in range(4)]
    assert [re.search(r"Hint \d", text)[0] for text in shown] == [
        "Hint 1",
        "Hint 2",
        "Hint 3",
        "Hint 3",
    ]
    assert "mask" in run("%reveal 9.1").out


def test_a_prediction(run):
    assert "How often" in run("%%predict 9.a\n...").out
    assert "Right: you said 4" in run("%%predict 9.a\n4  # I think").out
    assert "Right: you said four" in run("%predict 9.a four # I think").out
    assert "How often" in run("%predict 9.a").out
    assert "Right: you said 2 equations" in run("%predict 1.a 2 equations").out


def test_a_magic_without_an_id_says_what_to_write(run):
    ran = run("%%puzzle\nf = 1")
    assert "takes one id, as in %%puzzle 9.1" in str(ran.error)


def test_a_folder_that_cannot_be_written_is_no_error(run, monkeypatch):
    def refuse(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("jaxlens.course.own.save", refuse)
    run(IMPORTS)
    ran = run(f"%%puzzle 3.1\n{puzzle('3.1').solution}").well()
    assert "my_jax.py could not be written here (Permission denied)" in ran.out
    assert "Puzzle 3.1 is solved." in ran.out


def test_a_word_of_the_glossary(run):
    shown = run("%glossary weak type").out
    assert "The dtype of a Python number" in shown
    assert "https://docs.jax.dev/en/latest/type_promotion.html" in shown
    assert "as in %glossary thunk; got none" in str(run("%glossary").error)
