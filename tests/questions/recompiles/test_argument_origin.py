"""Where an argument of a call was created, from the source around the call."""

import linecache
import textwrap

import pytest

from jaxlens.ir.graph import Span
from jaxlens.questions.recompiles.measure.argument_origin import argument_origin

pytestmark = pytest.mark.reads_jax

CALLS = [
    ("tx = adam(1)\nfor _ in range(2):\n    tx = adam(2)\n    step(w, tx)", 4, "t:3: tx = adam(2)"),
    ("step(w, adam(3))", 1, "t:1: adam(3)"),
    ("tx = adam(1)\nstep(w,\n     tx=tx)", 2, "t:1: tx = adam(1)"),
    ("def train():\n    tx = adam(1)\n    return step(w, tx)\ntx = 0", 3, "t:2: tx = adam(1)"),
    ("tx, state = made()\nprint(float(step(w, tx)))", 2, "t:1: tx, state = made()"),
    ("tx = adam(1)\nrun = jit(step)\nrun(w, tx)", 3, "t:1: tx = adam(1)"),
    ("step(*both)", 1, ""),
    ("step(w)", 1, ""),
    ("def train(tx):\n    step(w, tx)", 2, ""),  # the caller's own argument
    ("step(w, tx", 1, ""),
    ("", 1, ""),
]


@pytest.mark.parametrize(("text", "line", "place"), CALLS)
def test_the_line_that_made_an_argument(text, line, place):
    linecache.cache["t"] = (len(text), None, textwrap.dedent(text).splitlines(True), "t")
    try:
        assert argument_origin(Span("t", line, line), "step", ["w", "tx"], "tx") == place
    finally:
        del linecache.cache["t"]


METHODS = [
    ("Tr().step(tx)", 1, "self", "t:1: Tr()"),
    ("t = Tr()\nt.step(adam(3))", 2, "self", "t:1: t = Tr()"),
    ("t = Tr()\nt.step(adam(3))", 2, "tx", "t:2: adam(3)"),
    ("run = jit(Tr.step)\nrun(Tr(), tx)", 2, "self", "t:2: Tr()"),
    ("t.step(*both)", 1, "self", ""),
]


@pytest.mark.parametrize(("text", "line", "name", "place"), METHODS)
def test_the_object_of_a_method_is_its_first_argument(text, line, name, place):
    linecache.cache["t"] = (len(text), None, text.splitlines(True), "t")
    try:
        assert argument_origin(Span("t", line, line), "step", ["self", "tx"], name) == place
    finally:
        del linecache.cache["t"]


def test_a_function_of_a_library_is_not_taken_for_the_call_on_the_line():
    linecache.cache["t"] = (20, None, ["run(PRNGKey(0), x)\n"], "t")
    try:
        assert argument_origin(Span("t", 1, 1), "loop", ["body", "n"], "body", renamed=False) == ""
    finally:
        del linecache.cache["t"]
