"""Lessons are built from text: puzzles filled in, solutions between nbgrader's marks."""

import errno
import os
import re
from xml.etree import ElementTree

import nbformat
import pytest

from jaxlens.course.build import build, sources, tour
from jaxlens.course.library import modules, puzzle
from jaxlens.course.predict import predictions
from jaxlens.errors import OptionError
from jaxlens.ir.lessons import BY_NUMBER, LESSONS
from tests.support.paths import ROOT


def cells(path):
    return [cell.source for cell in nbformat.read(path, as_version=4).cells]


def test_a_blank_lesson_holds_starters(tmp_path):
    (path,) = build(tmp_path, lessons=(9,))
    texts = cells(path)
    assert texts[0].startswith("# 9. When it compiles")
    assert f"%%puzzle 9.1\n{puzzle('9.1').starter.strip()}" in texts
    place = texts.index("%%predict 9.a\n...")
    assert texts[place - 1].startswith(
        "**Prediction 9.a.** How often is `f` compiled?\n\n```python\n"
    )
    assert texts[texts.index("%%predict 9.b\n...") - 1].endswith("One of: `served`, `compiled`.")


def test_a_solved_lesson_holds_solutions_and_truths(tmp_path):
    (path,) = build(tmp_path, solved=True, lessons=(9,))
    texts = cells(path)
    solution = puzzle("9.1").solution.strip()
    assert f"%%puzzle 9.1\n### BEGIN SOLUTION\n{solution}\n### END SOLUTION" in texts
    assert "%%predict 9.a\n4" in texts


def test_building_twice_gives_the_same_files(tmp_path):
    first = [path.read_bytes() for path in build(tmp_path / "a")]
    assert first == [path.read_bytes() for path in build(tmp_path / "b")]


def test_every_source_is_a_lesson():
    names = {"00_tour", "hlo_ops", *(lesson.file for lesson in LESSONS)}
    assert {path.stem for path in sources().glob("*.md")} == names


def test_every_puzzle_and_prediction_stands_in_its_lesson():
    for number, lesson in BY_NUMBER.items():
        lines = (sources() / f"{lesson.file}.md").read_text().splitlines()
        for magic, ids in (("%%puzzle", modules()), ("%%predict", predictions())):
            wanted = {f"{magic} {id}" for id in ids if id.split(".")[0] == str(number)}
            assert {line for line in lines if line.startswith(magic)} == wanted


def pictures(path):
    """The text that names each drawing of a lesson, with the drawing."""
    files = sorted(path.parent.glob(f"drawings/{path.stem[:2]}-*.svg"))
    found = [(text, f) for f in files for text in cells(path) if f"(drawings/{f.name})" in text]
    assert len(found) == len(files)
    return [(text, file.read_text("utf-8")) for text, file in found]


def test_every_lesson_has_a_drawing_that_says_what_it_shows(tmp_path):
    for lesson, path in zip(LESSONS, build(tmp_path, lessons=tuple(BY_NUMBER)), strict=True):
        drawn = pictures(path)
        assert drawn, lesson.file
        for text, svg in drawn:
            assert re.search(r"!\[[A-Z][^]]{40,}\.\]\(drawings/..-1\.svg\)", text), text
            words = [node.text for node in ElementTree.fromstring(svg).iter() if node.text]
            assert len("".join(words).split()) > 4
            assert not re.search("<script|<title|<!--", svg)


def test_without_graphviz_a_drawing_is_what_it_shows(tmp_path, monkeypatch):
    def broken(*_):
        raise OSError("no wheel")

    monkeypatch.setattr("jaxlens.render.graph.graphviz_run._run_wasm", broken)
    (path,) = build(tmp_path, lessons=(9,))
    assert not pictures(path)
    assert any("\n\n*A call is looked up by its key." in text for text in cells(path))


def test_the_committed_tour_is_built_from_its_source():
    committed = nbformat.read(ROOT / "notebooks" / "00_tour.ipynb", as_version=4)
    built = tour()
    assert [(c.source, c.metadata) for c in committed.cells] == [
        (c.source, c.metadata) for c in built.cells
    ]


def test_a_full_disk_leaves_no_half_a_lesson(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OptionError, match="No space left"):
            build(tmp_path, lessons=(1,), keep=True)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    (path,) = build(tmp_path, lessons=(1,), keep=True)
    nbformat.validate(nbformat.read(path, as_version=4))
