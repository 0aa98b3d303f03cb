"""The programs of other people's libraries (`programs.MODELS`), and what tests of them need."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from tests.support import programs

MARKS = [
    pytest.mark.models,
    # The libraries' own deprecations are not ours to forbid.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
NAMES = [*programs.MODELS, "gpt_step"]
NEEDS = {
    "flax_nnx": "flax",
    "equinox_optax": "equinox",
    "diffrax_solve": "diffrax",
    "numpyro_potential": "numpyro",
}


@functools.cache
def program(name: str) -> Any:
    """A program of that name with its arguments; the test is skipped where its library lacks."""
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    return {**programs.MODELS, "gpt_step": programs.gpt_step}[name]()


def on_models(test: Callable[[str], None]) -> Callable[[str], None]:
    """Runs a test for each name in `programs.MODELS`, where its library is installed."""
    for mark in MARKS:
        test = mark(test)
    return pytest.mark.parametrize("name", list(programs.MODELS))(test)
