"""Each idea of the lectures is taught, asked for, and in the core: `lectures.tsv` says where."""

import csv
import sys

import pytest

import jaxlens
from jaxlens import core
from jaxlens.core import numpy as cnp
from jaxlens.course.build import sources
from jaxlens.course.library import modules, puzzle
from jaxlens.course.predict import predictions
from jaxlens.ir.lessons import BY_NUMBER
from tests.support.paths import ROOT

README = ROOT / "jaxlens" / "course" / "README.md"
HEAD = "| idea | lesson | asked for | in `jaxlens.core` |\n|---|---|---|---|\n"


def rows():
    with open(ROOT / "tests" / "course" / "lectures.tsv", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def table():
    lines = []
    for row in rows():
        own = {id for id in row["asked"].split() if id in modules() and puzzle(id).saves}
        asked = ", ".join(f"**{id}**" if id in own else id for id in row["asked"].split())
        lessons = ", ".join(row["lessons"].split())
        lines.append(f"| {row['idea']} | {lessons} | {asked} | `{row['core']}` |\n")
    return HEAD + "".join(lines)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["idea"])
def test_an_idea_is_shown_and_asked_for(row):
    lessons = [BY_NUMBER[int(number)] for number in row["lessons"].split()]
    text = "".join((sources() / f"{lesson.file}.md").read_text() for lesson in lessons)
    assert row["shown"] in text
    assert row["asked"]
    for id in row["asked"].split():
        assert id in modules() or id in predictions()
        assert id.partition(".")[0] in row["lessons"].split()


@pytest.mark.backend
@pytest.mark.parametrize("row", rows(), ids=lambda row: row["idea"])
def test_the_core_has_it(row):
    names = {"jaxlens": jaxlens, "core": core, "cnp": cnp, "f": cnp.sin, "x": cnp.arange(3.0)}
    assert eval(row["core"], names) is not None


def test_every_puzzle_asks_for_an_idea():
    assert {id for row in rows() for id in row["asked"].split()} >= modules().keys()


def test_the_table_of_the_readme_is_made_of_the_rows():
    """`python -m tests.course.test_lectures` writes it."""
    assert table() in README.read_text()


if __name__ == "__main__":
    before, _, after = README.read_text().partition("| idea |")
    sys.exit(README.write_text(before + table() + after[after.index("\n\n") + 1 :]) and 0)
