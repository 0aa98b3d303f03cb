"""Slides of a lesson: a plan of 45 minutes, and a slide for each prediction."""

import re
from dataclasses import replace

import pytest

from jaxlens.cli import main
from jaxlens.course.predict import predictions
from jaxlens.course.slides import slides
from jaxlens.ir.lessons import BY_NUMBER, LESSONS


@pytest.fixture(scope="module")
def page():
    return slides(BY_NUMBER[9])


def test_each_prediction_is_a_slide_with_its_answer_closed(page):
    parts = page.split("<section>")[2:]
    assert [re.search("<h2>(.*?)</h2>", part)[1] for part in parts] == "9.a 9.b 9.c 9.d".split()
    assert "<summary>The answer</summary><p><b>4</b></p>" in parts[0]
    assert "<li>served</li><li>compiled</li>" in parts[1]
    assert not re.search("<details open|<script|https?:", page)


def test_code_is_data(monkeypatch):
    evil = "'</pre><script>alert(1)</script>'"
    entry = predictions()["9.a"]
    code = f"{entry.code}\ntext = {evil}"
    monkeypatch.setattr(
        "jaxlens.course.slides.predictions", lambda: {"9.a": replace(entry, code=code)}
    )
    page = slides(BY_NUMBER[9])
    assert "<script>" not in page
    assert "\ntext = '&lt;/pre&gt;&lt;script&gt;" in page


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.number)
def test_a_plan_fills_no_more_than_45_minutes_and_leaves_nothing_out(lesson, monkeypatch):
    monkeypatch.setattr("jaxlens.course.slides.predictions", dict)
    page = slides(lesson)
    minutes = [int(text) for text in re.findall(r"<td>(\d+)</td>", page)]
    assert minutes == sorted(minutes)
    assert minutes[0] == 0
    assert minutes[-1] < 45
    for id in predictions():
        if id.split(".")[0] == str(lesson.number):
            assert f"vote on {id}," in page


def test_the_command_writes_the_page(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("jaxlens.course.slides.predictions", dict)
    monkeypatch.setattr("jaxlens.course.trial.set_devices", lambda: None)  # of a fresh process
    path = tmp_path / "slides.html"
    assert main(["course", "slides", "4", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}\n"
    assert "<h1>4. Read a jaxpr</h1>" in path.read_text("utf-8")
