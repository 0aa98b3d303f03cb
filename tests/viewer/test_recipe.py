"""The lens that the map adds in one block works, with all that a row brings."""

import re
from dataclasses import fields

import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens import questions
from jaxlens.notebook.widgets import questions as panel
from jaxlens.viewer import panes, show
from tests.support.paths import ROOT


@pytest.fixture
def row():
    text = (ROOT / "jaxlens" / "README.md").read_text().partition("## To add a lens")[2]
    block = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    names = {"__name__": "recipe"}
    exec(block[1], names)
    return names["WIDEST"]


@pytest.fixture
def capture():
    return jaxlens.capture(lambda x, w: jnp.tanh(x @ w), jnp.ones((8, 4)), jnp.ones((4, 100)))


def test_its_facts_are_attributes_of_the_answer(row, capture) -> None:
    answer = show.ask(row, capture)
    assert answer.bytes == answer.facts.bytes == 4 * 8 * 100
    assert "The largest value is that of " in str(answer)
    assert "3.2 kB" in answer.html()


def test_the_row_alone_makes_option_help_and_output(row, capture, monkeypatch) -> None:
    rows = (*questions.rows(), row)
    monkeypatch.setattr(questions, "rows", lambda: rows)
    made = panes.with_questions(panes.CompilePanes, "all")
    (field,) = [field for field in fields(made) if field.name == "widest"]
    assert field.metadata["help"] == row.help
    assert questions.about("widest") is row.about
    shown = show.verb("compile", capture, made(widest=True, memory=True))
    assert any("The largest value" in str(block) for block in shown.blocks)


def test_a_row_can_stand_in_the_panel(row) -> None:
    assert row.panel not in {question.panel for question in panel.QUESTIONS.values()}


def readme_rows() -> list[str]:
    """The rows of the table in the README: the question, its magic, and how Python asks it."""
    asked = [question for question in questions.rows() if question.python]
    order = sorted(
        asked, key=lambda question: (not question.panel and question.verb != "", question.panel)
    )
    return [
        f"| {question.about.sentence} | {_magics(question)} | `{question.python}` |"
        for question in order
    ]


def _magics(question) -> str:
    if not question.verb:
        return {
            "recompiles": "`%%recompiles`",
            "timeline": "`%%timeline`",
            "arrays": "`%arrays`",
        }[question.name]
    if question.name in ("nan", "numerics", "silent", "values"):
        return f"`%%{question.name}`, `%jaxpr --{question.name}`"
    value = f" {question.metavar}" if question.metavar else ""
    more = (f"`--{option.name}`" for option in question.options if option.about)
    return ", ".join([f"`%{question.verb} --{question.name}{value}`", *more])


def test_the_table_of_the_readme_is_that_of_the_rows() -> None:
    text = (ROOT / "README.md").read_text()
    written = text.partition("| question | magic | in Python |\n|---|---|---|\n")[2]
    rows = written.partition("\n\n")[0].splitlines()
    assert rows[: len(readme_rows())] == readme_rows()
