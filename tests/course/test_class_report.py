"""A class's answers are judged anew; what a progress file says is shown beside it."""

import csv
import json

import pytest

from jaxlens.cli import main
from jaxlens.course import class_report
from jaxlens.course.check import Judgement
from jaxlens.course.class_report import CSV
from jaxlens.course.library import puzzle

pytestmark = pytest.mark.backend

IMPORTS = "%load_ext jaxlens\nimport jax.numpy as jnp"
ONE = "first = jnp.float32(1)\nsecond = 2.0\n"  # solves 7.3


def learner(folder, code, **progress):
    folder.mkdir()
    notebook(folder / "07.ipynb", f"%%puzzle 9.5\n{code}")
    (folder / ".jaxlens-progress.json").write_text(json.dumps({"version": 3, **progress}))


def notebook(path, *sources):
    path.parent.mkdir(exist_ok=True)
    cells = [{"cell_type": "code", "source": source} for source in sources]
    path.write_text(json.dumps({"cells": cells}))


def rows(folder):
    with (folder / CSV).open() as file:
        return list(csv.DictReader(file))


def test_a_class(tmp_path, capsys):
    entry = puzzle("9.5")
    learner(tmp_path / "ada", entry.solution, solved=["9.5", "99.9"])
    learner(tmp_path / "eve", entry.starter)
    (tmp_path / "bob").mkdir()
    (tmp_path / "zoe" / "lessons").mkdir(parents=True)
    (tmp_path / ".ipynb_checkpoints").mkdir()  # JupyterLab's, and no learner
    wrong = f"{entry.starter}\nnothing = None\n"
    learner(tmp_path / "bob" / "jaxlens-course", wrong, solved=["9.5"], revealed=["9.5"])
    assert main(["course", "report", str(tmp_path)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[1].split() == ["ada", "1", "1", "1", "0"]
    assert out[2].split() == ["bob", "1", "0", "1", "1"]
    assert out[3].split() == ["eve", "0", "0", "0", "0"]
    assert "zoe: no lesson is in the folder, so nothing is judged" in out
    ada, bob, zoe = rows(tmp_path)
    assert zoe["judgement"] == "no lesson is in the folder, so nothing is judged"
    assert [ada["solved"], bob["solved"], bob["by the progress file"]] == ["1", "0", "1"]
    assert "not solved" in bob["judgement"]


def test_an_answer_may_use_names_of_cells_above_and_magics(tmp_path):
    helper = "%%capture output\ndef one(): return jnp.float32(1)\nsecond = 2.0"
    answer = "%%puzzle 9.3\n%time 1\nfirst = one()"
    broken = "raise ValueError"
    notebook(tmp_path / "ada" / "07.ipynb", IMPORTS, helper, broken, f"{answer}\nsecond = 2.0")
    notebook(tmp_path / "bob" / "07.ipynb", IMPORTS, helper, answer)  # as in the lesson
    assert main(["course", "report", str(tmp_path)]) == 0
    ada, bob = rows(tmp_path)
    assert ada["solved"] == "1"
    assert bob["judgement"] == "Puzzle 9.3 is not solved: the answer must define `second`."


def test_one_answer_of_several_is_enough(tmp_path):
    notebook(tmp_path / "ada" / "07-Copy1.ipynb", f"\n%%puzzle 9.3\n{ONE}")
    notebook(tmp_path / "ada" / "07.ipynb", "%%puzzle 9.3\nfirst = 1")
    assert main(["course", "report", str(tmp_path)]) == 0
    assert [row["solved"] for row in rows(tmp_path)] == ["1"]


def test_an_answer_does_not_speak_for_itself(tmp_path):
    forged = "import os\nprint('[true, \"solved\"]', flush=True)\nos._exit(0)"
    notebook(tmp_path / "eve" / "07.ipynb", f"%%puzzle 9.3\n{forged}")
    late = f"import atexit\natexit.register(print, 'bye')\n{ONE}"
    notebook(tmp_path / "zoe" / "07.ipynb", f"%%puzzle 9.3\n{late}")
    assert main(["course", "report", str(tmp_path)]) == 0
    assert [row["solved"] for row in rows(tmp_path)] == ["0", "1"]


def test_what_a_learner_wrote_is_text_to_a_terminal_and_a_spreadsheet(
    tmp_path, capsys, monkeypatch
):
    verdict = Judgement(False, "=1+1: \x1b[31mred", "", "", "")
    monkeypatch.setattr(class_report, "judge_apart", lambda _: (v for v in [verdict]))
    for name in ("=1+1", "J\u00fcrgen <b>", "two\nlines"):
        notebook(tmp_path / name / "07.ipynb", f"%%puzzle 9.3\n{ONE}")
    assert main(["course", "report", str(tmp_path)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line[:12].rstrip() for line in out[1:4]] == [
        "'=1+1",
        "J\u00fcrgen <b>",
        "two\u240alines",
    ]
    first, *others = rows(tmp_path)
    assert [first["learner"], first["judgement"]] == ["'=1+1", "'=1+1: \u241b[31mred"]
    assert len(others) == 2


@pytest.mark.parametrize(
    "text", ["", "nothing", "[1, 2]", '{"cells": ["abc"]}', '{"cells": [{"source": null}]}']
)
def test_a_file_that_is_no_notebook_is_named(tmp_path, capsys, text):
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "x.ipynb").write_text(text)
    (tmp_path / "ada" / ".jaxlens-progress.json").write_text('{"solved": [')
    assert main(["course", "report", str(tmp_path)]) == 0
    assert "ada: x.ipynb cannot be read (it is no notebook)" in capsys.readouterr().out
    judgements = [row["judgement"] for row in rows(tmp_path)]
    assert judgements[0] == ".jaxlens-progress.json cannot be read"
    assert "x.ipynb" in judgements[1]


def test_a_line_comes_as_soon_as_a_learner_is_judged(tmp_path, monkeypatch):
    judged = []

    def judge(answers):
        [answer] = answers
        judged.append(answer.folder)
        if answer.folder.endswith("eve"):
            raise RuntimeError("the teacher ends it here")
        yield Judgement(True, "solved", "", "", "")

    monkeypatch.setattr(class_report, "judge_apart", judge)
    for name in ("ada", "eve"):
        notebook(tmp_path / name / "07.ipynb", f"%%puzzle 9.3\n{ONE}")
    lines = class_report.report(tmp_path)
    assert [next(lines).split()[0], next(lines).split()[0]] == ["answers", "ada"]
    with pytest.raises(RuntimeError):
        next(lines)
    assert [row["learner"] for row in rows(tmp_path)] == ["ada"]


def test_a_folder_that_cannot_be_written_is_said_before_all_judging(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(class_report, "judge_apart", None)
    notebook(tmp_path / "ada" / "07.ipynb", f"%%puzzle 9.3\n{ONE}")
    (tmp_path / CSV).mkdir()
    assert main(["course", "report", str(tmp_path)]) == 2
    assert "copy the learners' folders into a folder of yours" in capsys.readouterr().err
