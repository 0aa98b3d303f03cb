"""The tables of all questions: no two columns share a name, and what one compares has bars."""

from functools import cache

import pytest

import jaxlens
from jaxlens.errors import UnavailableError
from jaxlens.questions import rows
from jaxlens.report import number
from tests.support.paths import CAPTURES

# Numbers that are compared with no other of their column: positions, and a size beside a type.
PLAIN = {"#", "level", "step", "share", "repeats", "runs", "reads", "pieces", "copies", "flop/B"}


@cache
def tables(path):
    capture, found = jaxlens.load(path), []
    for question in rows():
        try:
            found += question.lens().report(question.gathered_facts(capture, {})).tables
        except (UnavailableError, NotImplementedError, TypeError):
            continue  # the file lacks it, or it takes several programs
    return found


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_no_two_columns_share_a_name(path):
    assert len(tables(path)) > 5
    for table in tables(path):
        assert len(set(table.columns)) == len(table.columns), table.columns


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_a_table_of_quantities_has_a_column_of_bars(path):
    for table in tables(path):
        quantities = [i for i in table.right if table.columns[i] not in PLAIN]
        if len(table.rows) > 1 and any(number(row[i]) for row in table.rows for i in quantities):
            assert any(cell.bar for row in table.rows for cell in row), table.title


def test_two_programs_of_one_name_have_two_headings():
    path = next(path for path in CAPTURES if path.stem.startswith("mlp_step.cpu"))
    capture = jaxlens.load(path)
    answer = jaxlens.compare(capture, capture, names=("step", "step"))
    for table in answer.tables:
        assert len(set(table.columns)) == len(table.columns), table.columns
