"""Where the program shown is not the one that runs, the first lines of every view say so."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.captures import Capture
from jaxlens.notebook.widgets.viewer_requests import with_answer

pytestmark = pytest.mark.backend

SENTENCES = (
    "<it> was jitted elsewhere: flops are too few.",
    "Its table is an argument: 8 kB more.",
)
SHOWN = [f"Not what runs: {sentence}" for sentence in SENTENCES]
X = np.ones((4, 8), np.float32)


def loss(x):
    return jnp.tanh(x).sum()


def deviating() -> Capture:
    """One sentence is known when the call is taken, one after the trace."""
    cap = jaxlens.capture(jax.jit(jax.grad(loss)), X)
    program = replace(cap.program, deviations=SENTENCES[:1])
    cap.driver.deviations = lambda: SENTENCES[1:]
    return Capture(program, cap.driver)


VERBS = {
    name: getattr(jaxlens, name)
    for name in (
        "tape jaxpr hlo compile explore cost memory times fusion captured sharding ladder".split()
    )
}


@pytest.fixture(scope="module")
def cap():
    return deviating()


@pytest.mark.parametrize("verb", VERBS)
def test_every_view_says_so_first(cap, verb):
    shown = VERBS[verb](deviating() if verb == "tape" else cap)
    assert str(shown).splitlines()[1:3] == SHOWN
    head = shown.html().partition("<pre class=title-line>")[2].partition("</pre>")[0]
    assert head.splitlines()[1] == SHOWN[0].replace("<it>", "&lt;it&gt;")
    assert head.splitlines()[2] == SHOWN[1]


def test_an_answer_in_the_place_of_an_output_shows_them(cap):
    shown = with_answer(jaxlens.jaxpr(cap), "cost")
    assert str(shown).splitlines()[1:3] == SHOWN


def test_comparing_says_whose_they_are(cap):
    text = str(jaxlens.compare(jaxlens.capture(jax.jit(jax.grad(loss)), X), cap, names=("a", "b")))
    said = [line for line in text.splitlines() if line.startswith("Not what runs")]
    assert said == [f"Not what runs: (b) {sentence}" for sentence in SENTENCES]


def test_saving_keeps_them(cap, tmp_path):
    cap.save(tmp_path / "cap", stages=["jaxpr"])
    loaded = jaxlens.load(tmp_path / "cap")
    assert loaded.deviations == loaded.program.deviations == SENTENCES
    assert str(jaxlens.jaxpr(loaded)) == str(jaxlens.jaxpr(cap))
