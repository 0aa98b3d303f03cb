"""THE TABLE of questions: a folder each, found by its place, with its rows in `row.py`.

Those of another package are found by its entry points of the group "jaxlens.questions".

`-h`, Tab, the verbs, the output of `%%compile`, what Ask lists and the table in README.md are made
from the rows.

Figures are of three kinds everywhere: measured on this machine, reported by XLA for its own
program, or counted and inferred by jaxlens from the program's text.

A row's function imports its lens when it is called, so that `%load_ext` imports rows and no lens.
Its docstring is the end of the verb's, whose beginning is made of the row (`ask.py`).
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from jaxlens.question import About, Question


@cache
def _modules() -> tuple[ModuleType, ...]:
    """The modules of rows: one of each folder here, and those of other packages."""
    names = [f"{__name__}.{folder.name}.row" for folder in iter_modules(__path__)]
    points = entry_points(group=__name__)
    return (*map(import_module, names), *(point.load() for point in points))


@cache
def rows() -> tuple[Question[Any], ...]:
    """Returns the rows of all questions; those of a magic in the order of its help and output."""
    found = [row for module in _modules() for row in module.ROWS]
    return tuple(sorted(found, key=lambda row: row.place))


def of_verb(verb: str) -> tuple[Question[Any], ...]:
    """Returns the questions that a magic shows."""
    return tuple(question for question in rows() if question.verb == verb)


@cache
def askable() -> Mapping[str, Question[Any]]:
    """Returns the questions that can be asked of one program by their name alone."""
    by_name: dict[str, Question[Any]] = {}
    for row in sorted(rows(), key=lambda row: row.panel or 100):
        if row.verb and not (row.several or row.metavar):
            by_name.setdefault(row.name, row)
    return by_name


def about(name: str) -> About | None:
    """Returns how the answer to a question, or to an option that asks one, is known."""
    for question in rows():
        if question.name == name:
            return question.about
        for option in question.options:
            if option.name == name and option.about:
                return option.about
    return None


def when_a_trace_fails(error: Exception, call: Any, place: Any) -> None:
    """Has the questions explain the exception of a trace or a lowering that can; they add notes."""
    for module in _modules():
        explain = getattr(module, "when_a_trace_fails", None)
        if explain is not None:
            explain(error, call, place)
