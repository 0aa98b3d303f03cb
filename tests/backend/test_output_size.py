"""Outputs of real programs stay small enough to keep in a notebook."""

import re

import pytest

import jaxlens
from tests.support import programs

pytestmark = pytest.mark.backend

WHOLE = 114_000  # bytes of HTML, the viewer's scripts and styles in it
# Of %%explore: every stage, two graphs, the diff, cost, memory and times; assembly differs by some
# kB between processors.
EXPLORED = {"mlp_step": 146_000, "scan_rnn": 160_000}
MOST = 60_000  # bytes beside the scripts and styles, which a page needs once
ALL = 75_000  # the same of %%explore
LOOPS = 90_000  # of a scan and its backward pass, through 30 passes
_ASSETS = re.compile(r"<style data-jl=.*?</style>|<script>.*?</script>", re.DOTALL)


def sizes(html: str) -> tuple[int, int]:
    """Bytes of an output, and of what is not an asset."""
    return len(html.encode()), len(_ASSETS.sub("", html).encode())


@pytest.mark.parametrize("name", programs.SMALL)
def test_outputs_stay_small(name: str) -> None:
    f, args = programs.SMALL[name]()
    cap = jaxlens.capture(f, *args)
    measured = {
        verb.__name__: sizes(verb(cap).html())
        for verb in (jaxlens.jaxpr, jaxlens.hlo, jaxlens.compile, jaxlens.explore)
    }
    whole, own = measured.pop("explore")
    assert max(whole for whole, _ in measured.values()) < WHOLE, measured
    assert max(own for _, own in measured.values()) < MOST, measured
    assert whole < EXPLORED.get(name, EXPLORED["scan_rnn"])
    assert own < (LOOPS if name == "scan_rnn" else ALL)


def test_flops_that_differ_are_explained_where_they_stand():
    f, args = programs.scan_rnn()
    said = " ".join(jaxlens.compile(f, *args).text(full=True).split())
    counted, _, rest = said.partition("XLA's own figure for the optimised program")
    assert "kflop" in counted
    assert "body" in rest.partition("Memory:")[0]
