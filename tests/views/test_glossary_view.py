"""`jaxlens.glossary`: a word at both depths, as text and HTML."""

import pytest

import jaxlens
from jaxlens.errors import OptionError
from jaxlens.ir.glossary import entry


def test_each_meaning_has_both_depths_its_lesson_and_its_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = jaxlens.glossary("while").text(width=1000)
    assert "while, primitive" in text
    assert "while, HLO instruction" in text
    for kind in ("primitive", "op", "instruction"):
        known = entry(kind, "while")
        assert known.sentence in text
        assert all(part in text for part in known.expert)
    assert "lesson 18, Loops that stay loops (`jaxlens lab`)" in text
    assert "https://docs.jax.dev/en/latest/_autosummary/jax.lax.while_loop.html" in text


def test_where_the_lesson_lies_its_name_is_enough(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "18_loops_that_stay_loops.ipynb").write_text("")
    shown = jaxlens.glossary("carry")
    assert "jaxlens lab" not in shown.text()
    assert "<a href=18_loops_that_stay_loops.ipynb" in shown.html()
    assert '<a href="https://docs.jax.dev/en/latest/_autosummary/jax.lax.scan.html"' in shown.html()


def test_html_has_the_same_words():
    html = jaxlens.glossary("ynn_fusion").html()
    assert entry("word", "ynn_fusion").sentence in html


@pytest.mark.parametrize("word", ["reduce_windw", "", "<img src=x>"])
def test_other_words_get_one_line(word):
    with pytest.raises(OptionError, match="the glossary has no word") as raised:
        jaxlens.glossary(word)
    assert "\n" not in str(raised.value)
