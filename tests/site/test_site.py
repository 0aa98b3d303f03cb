"""The site's sources say all that there is: each question, magic, option, name and word."""

import re
from itertools import chain
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_output

import jaxlens
from jaxlens.ir.glossary import words
from jaxlens.ir.lessons import LESSONS
from jaxlens.notebook import extension
from jaxlens.notebook.magics.magic_line import flags
from jaxlens.questions import rows
from jaxlens.viewer.panes import OPTIONS, PANES
from notebooks.site import build, check, reference

RUN = build.sources("howto") | build.sources("gallery")
PAGES = reference.pages(RUN)
HEADINGS = set(chain(*(re.findall(r"^#+ (.+)$", text, re.MULTILINE) for text in RUN.values())))
ASKED = [*rows(), *PANES.values()]
SENTENCES = {question.about.sentence for question in ASKED} | {
    option.about.sentence for question in ASKED for option in question.options if option.about
}


@pytest.mark.parametrize("sentence", sorted(SENTENCES))
def test_each_question_of_the_table_is_a_heading(sentence):
    assert sentence in HEADINGS


@pytest.mark.parametrize("name", RUN)
def test_a_page_has_a_lead_and_a_cell_to_type_and_is_listed(name):
    folder, _, file = name.partition("/")
    assert reference.lead(RUN[name])[-1] in ".:"
    assert re.search(r"^```python\n(.|\n)*?(^%|jaxlens\.)", RUN[name], re.MULTILINE)
    assert f"({file}.ipynb)" in PAGES[f"{folder}/index"]
    assert folder == "gallery" or re.search(r"^##+ How to read it$", RUN[name], re.MULTILINE)


def test_the_gallery_has_ten_programs_as_explorers():
    gallery = [text for name, text in RUN.items() if name.startswith("gallery/")]
    assert len(gallery) == 10
    assert all("%%explore" in text or "jaxlens.explore(" in text for text in gallery)


@pytest.mark.parametrize("verb", OPTIONS)
def test_each_option_of_a_magic_has_an_address(verb):
    text = PAGES["reference/magics"]
    assert f"## `%%{verb}`" in text
    for flag in flags(OPTIONS[verb]):
        name = {"-h": "help"}.get(flag, flag.strip("-"))
        assert f"{{#{verb}-{name}}}" in text


def test_each_magic_has_a_section():
    named = {name.strip("%") for name in reference.magic_functions()}
    assert named == {name for _, name in extension._PLACES}


@pytest.mark.parametrize(
    "name",
    sorted({*jaxlens.__all__} - {"__version__", "course"})
    + [f"course.{name}" for name in jaxlens.course.__all__],
)
def test_each_public_name_is_documented(name):
    assert f"## `jaxlens.{name}`" in PAGES["reference/python"]


def test_the_command_is_documented():
    text = PAGES["reference/command"]
    assert all(verb in text for verb in (*reference.COMMANDS, "doctor", "list", "blank", "solved"))


@pytest.mark.parametrize("kind", reference.TITLES)
def test_each_word_has_an_address_of_its_own(kind):
    places = [reference.anchor(word) for word in words(kind)]
    assert places
    assert len(set(places)) == len(places)
    assert all(re.fullmatch(r"[\w.-]+", place) for place in places)
    assert f"{{glossary-of}} {kind}" in PAGES[f"glossary/{kind}"]


def test_the_course_lists_every_lesson():
    assert all(f"({lesson.file}.ipynb)" in PAGES["course/contents"] for lesson in LESSONS)


def test_a_page_carries_assets_once_and_leads_to_the_pages_of_lessons(tmp_path):
    asset = "<script>(() => {})();</script>"
    html = f"{asset}<a href=04_read_a_jaxpr.ipynb>5</a>{asset}"
    output = new_output("display_data", {"text/html": html})
    warning = new_output("stream", text="/home/me/lib/site-packages/jax/a.py:3: slow\n")
    build.write(tmp_path / "howto.ipynb", [new_code_cell("x", outputs=[output, warning])])
    shown, said = nbformat.read(tmp_path / "howto.ipynb", as_version=4).cells[0].outputs
    page = "<a href=../course/04_read_a_jaxpr.html>5</a>"
    assert shown["data"]["text/html"] == asset + page
    assert said["text"] == "jax/a.py:3: slow\n"


def test_broken_addresses_are_found(tmp_path):
    home = Path.home()
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there">1</a><a href="b.html#gone">2</a><a href="c.html">3</a>'
        f'<a href="https://jax.dev">4</a><script src="https://cdn.example/x.js"></script>{home}'
    )
    (tmp_path / "b.html").write_text('<p id="there">')
    assert sorted(check.broken(tmp_path)) == [
        "a.html: loads https://cdn.example/x.js",
        f"a.html: names {home}",
        "a.html: no such place, b.html#gone",
        "a.html: there is no c.html",
    ]
