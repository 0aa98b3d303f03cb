"""Many parameters, parts of tuples and results of an HLO program are one row each."""

import pytest

from jaxlens.ir.hlo import reader as hlo
from jaxlens.render.html.listing import listing_html
from jaxlens.render.html.marks import Ink
from jaxlens.render.html.payload import Budget
from jaxlens.render.text.lines import listing_lines
from jaxlens.views.listings import hlo as hlo_lines

MANY, FEW = 12, 3


def module(n):
    """A program that negates n inputs, which it reads from a tuple, and returns them."""
    types = ", ".join(["f32[4]"] * n)
    inputs = [f"  %p.{i} = f32[4]{{0}} parameter({i})" for i in range(n)]
    negated = [f"  %n.{i} = f32[4]{{0}} negate(%p.{i})" for i in range(n)]
    names = ", ".join(f"%n.{i}" for i in range(n))
    parts = [f"  %g.{i} = f32[4]{{0}} get-tuple-element(%t), index={i}" for i in range(n)]
    results = ", ".join(f"%g.{i}" for i in range(n))
    return hlo.read(
        "\n".join(
            [
                f"HloModule many, entry_computation_layout={{({types})->({types})}}\n",
                "ENTRY %main {",
                *inputs[: n // 2],
                *negated[: n // 2],
                *inputs[n // 2 :],
                *negated[n // 2 :],
                f"  %t = ({types}) tuple({names})",
                *parts,
                f"  ROOT %out = ({types}) tuple({results})",
                "}\n",
            ]
        )
    )


def brief(program):
    return hlo_lines.listing(program, 400, brief=True)


def text(listing, full=False):
    return "\n".join(listing_lines(listing, full))


@pytest.mark.parametrize("listed", [hlo_lines.listing, brief])
def test_the_text_has_one_row_with_a_count_and_all_on_request(listed):
    shown = text(listed(module(MANY)))
    assert "  parameter x 12, 192 B  (folded; .text(full=True) opens it)" in shown
    assert "  tuple, get-tuple-element x 12  (folded" in shown
    assert "tuple(g.0, g.1, g.2 and 9 more)\n  12 results  (folded" in shown
    assert "parameter(" not in shown
    assert len(shown.splitlines()) == 2 + 12 + 4
    whole = text(listed(module(MANY)), full=True)
    inside = whole[whole.index("parameter x") : whole.index("n.0 =")]
    assert [f"p.{i} = " in inside for i in range(MANY)] == [True] * MANY
    assert "  n.11" not in inside
    assert "    g.7  // result 7" in whole


@pytest.mark.parametrize("listed", [hlo_lines.listing, brief])
def test_few_of_them_are_shown(listed):
    shown = text(listed(module(FEW)))
    assert "folded" not in shown
    assert shown.count("parameter(") == shown.count("get-tuple-element(") == FEW
    assert "tuple(g.0, g.1, g.2)" in shown


@pytest.mark.parametrize("limit", [0, 2, 3, 20, 400])
def test_rows_are_those_of_the_lines_wherever_the_page_ends(limit):
    listing = hlo_lines.listing(module(MANY), limit, brief=True)
    assert len(listing.lines) == min(limit, 18)
    assert len(list(listing.more)) == len(listing.more)
    assert text(listing, full=True) == text(
        hlo_lines.listing(module(MANY), 400, brief=True), full=True
    )
    every = (*listing.lines, *listing.more)
    assert {node.id for node in module(MANY).nodes()} <= {line.id for line in every}
    assert len(every) == 18 + 12 + 13 + 12


def test_a_page_without_scripts_shows_the_program_and_says_where_the_rest_is():
    markup = listing_html(brief(module(MANY)), Ink({}), Budget())
    rows, data, rest = markup.partition("<script")
    assert "<div data-folds=12>" in rows
    assert "parameter(" not in rows
    assert "negate" in rows
    assert data
    assert "37 more lines here where scripts run." in rest
