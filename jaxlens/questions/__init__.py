"""THE TABLE of questions: a folder each, found by its place, with its rows in `row.py`.

`-h`, Tab, the verbs, the output of `%%compile`, the panel and the table in README.md are made from
the rows.

Figures are of three kinds everywhere: measured on this machine, reported by XLA for its own
program, or counted and inferred by jaxlens from the program's text.

A row's function imports its lens when it is called, so that `%load_ext` imports rows and no lens.
Its docstring is the end of the verb's, whose beginning is made of the row (`ask.py`).
"""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from jaxlens.question import About, Question


@cache
def rows() -> tuple[Question[Any], ...]:
    """Returns the rows of all questions; those of a magic in the order of its help and output."""
    folders = [folder.name for folder in iter_modules(__path__)]
    found = [row for name in folders for row in import_module(f"{__name__}.{name}.row").ROWS]
    return tuple(sorted(found, key=lambda row: row.place))


def of_verb(verb: str) -> tuple[Question[Any], ...]:
    """Returns the questions that a magic shows."""
    return tuple(question for question in rows() if question.verb == verb)


def about(name: str) -> About | None:
    """Returns how the answer to a question, or to an option that asks one, is known."""
    for question in rows():
        if question.name == name:
            return question.about
        for option in question.options:
            if option.name == name and option.about:
                return option.about
    return None
