"""A class's answers are judged anew; what a progress file says is shown beside it."""

import csv
import json

import pytest

from jaxlens.cli import main
from jaxlens.course.class_report import CSV, answers
from jaxlens.course.library import puzzle

pytestmark = pytest.mark.backend


def learner(folder, code, **progress):
    folder.mkdir()
    cell = {"cell_type": "code", "source": f"%%puzzle 7.5\n{code}"}
    (folder / "07.ipynb").write_text(json.dumps({"cells": [cell]}))
    (folder / ".jaxlens-progress.json").write_text(json.dumps({"version": 1, **progress}))


def test_a_class(tmp_path, capsys):
    entry = puzzle("7.5")
    learner(tmp_path / "ada", entry.solution, solved=["7.5"])
    learner(tmp_path / "eve", entry.starter)
    (tmp_path / "bob").mkdir()
    wrong = f"{entry.starter}\nnothing = None\n"
    learner(tmp_path / "bob" / "jaxlens-course", wrong, solved=["7.5"], revealed=["7.5"])
    assert main(["course", "report", str(tmp_path)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[1].split() == ["ada", "1", "1", "1", "0"]
    assert out[2].split() == ["bob", "1", "0", "1", "1"]
    assert out[3].split() == ["eve", "0", "0", "0", "0"]
    with (tmp_path / CSV).open() as file:
        rows = list(csv.DictReader(file))
    assert [row["solved"] for row in rows] == ["1", "0"]
    assert "not solved" in rows[1]["judgement"]


def test_a_file_that_is_no_notebook_is_left_out(tmp_path):
    (tmp_path / "x.ipynb").write_text("nothing")
    assert answers(tmp_path) == {}
