"""Outputs of real programs stay small enough to keep in a notebook."""

import pytest

import jaxlens
from tests.support import programs

pytestmark = pytest.mark.backend

MOST = 112_000  # bytes of HTML: all panes, the viewer, and up to 10 kB that explain their words
EXPLORED = 137_000  # of %%explore: every stage, pass by pass, and two graphs


@pytest.mark.parametrize("name", programs.SMALL)
def test_every_verb_stays_below_112_kB(name: str) -> None:
    f, args = programs.SMALL[name]()
    cap = jaxlens.capture(f, *args)
    sizes = {
        verb.__name__: len(verb(cap).html().encode())
        for verb in (jaxlens.jaxpr, jaxlens.hlo, jaxlens.compile)
    }
    assert max(sizes.values()) < MOST, sizes
    most = 122_000 if name == "mlp_step" else EXPLORED
    assert len(jaxlens.explore(cap).html().encode()) < most


def test_flops_that_differ_are_explained_where_they_stand():
    f, args = programs.scan_rnn()
    said = " ".join(str(jaxlens.compile(f, *args)).split())
    counted, _, rest = said.partition("XLA's own figure for the optimised program")
    assert "kflop" in counted
    assert "body" in rest.partition("Memory:")[0]
