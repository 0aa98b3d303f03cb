"""What the sentences of all lenses are made of."""

import pytest

from jaxlens.ir.facts import Source
from jaxlens.ir.graph import Span
from jaxlens.program.sentences import Quoter, bracketed
from jaxlens.report import amount


def test_quoted_code_ends_where_its_backticks_do():
    span = Span("models.py", 247)
    assert f"{span}{bracketed(span, 'x = nn.Dense(')}" == "models.py:247 (`x = nn.Dense(`)"


def test_a_quoted_piece_is_the_one_that_its_columns_in_bytes_cover():
    line = "über = é * (a + b)"
    column = len(line[: line.index("(")].encode())
    span = Span("cell 1", 1, 1, column, column + len("(a + b)"), key="c")
    assert Quoter({"c": Source("cell 1", line)}).piece(span) == "(a + b)"


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (14.4e15, "14.4 PB"),
        (999.6e15, "1 EB"),
        (1.44e22, "14,400 EB"),
        (999.4, "999 B"),
        (0.5, "0.5 B"),
        (1340, "1.34 kB"),
    ],
)
def test_no_amount_has_an_exponent(n, text):
    assert amount(n) == text
