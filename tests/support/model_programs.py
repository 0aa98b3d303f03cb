"""The real programs of `programs` by name, each captured once, and what tests of libraries need."""

import functools

import pytest

import jaxlens
from tests.support import programs
from tests.support.jitted_programs import require

# The libraries' own deprecations are not ours to forbid.
LIBRARY_WARNINGS = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
MARKS = [pytest.mark.models, *LIBRARY_WARNINGS]
NAMES = [*programs.MODELS, "gpt_step"]
LAYERS = 4  # the fewest that are shown as layers that repeat


@functools.cache
def program(name):
    """A program of that name with its arguments; skips the test where its library is missing."""
    require(name)
    small = functools.partial(programs.gpt_step, layers=LAYERS)
    return {**programs.SMALL, **programs.MODELS, "gpt_step": small}[name]()


@functools.cache
def captured(name):
    """The capture of such a program: compiled once in this process, with the dumps of passes."""
    f, args = program(name)
    taken = jaxlens.capture(f, *args)
    assert taken.passes
    return taken


def on_models(test):
    """Runs a test for each name in `programs.MODELS`, where its library is installed."""
    for mark in MARKS:
        test = mark(test)
    return pytest.mark.parametrize("name", list(programs.MODELS))(test)
