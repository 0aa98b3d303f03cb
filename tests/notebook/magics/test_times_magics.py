"""Compile times and captured arrays in a notebook: the first sentence is the answer."""

import re
from typing import Any

import pytest

import jaxlens
from jaxlens.errors import OptionError

SETUP = """
import jax, jax.numpy as jnp, numpy as np
table = np.arange(3000, dtype=np.float32)
def long(x):
    for step in range(40):
        x = jnp.sin(x) * step + x
    return x
def holding(x):
    return x * table
"""


@pytest.fixture(autouse=True)
def _names(run: Any) -> None:
    assert run(SETUP).ok


def view(run: Any, shell: Any, line: str, call: str) -> Any:
    done = run(f"{line} -o view\n{call}")
    assert done.ok, done.out
    return shell.user_ns["view"]


def test_the_first_sentence_names_the_loop(run: Any, shell: Any) -> None:
    words = " ".join(str(view(run, shell, "%%compile --times", "long(2.0)")).split())
    assert "made 120 of 120 equations: a loop of 40 steps was unrolled" in words
    # The seconds that were asked for, rounded and with their unit, then the line in the loop.
    # Which part of the compile took longest, and what is said of it, the clock decides.
    assert re.search(r"took \d+% of [\d.]+ m?s\b[^;]*; cell \d+:5 made 120 of ", words)


def test_a_run_that_was_asked_for_is_in_the_text_and_no_other_time(run: Any, shell: Any) -> None:
    words = str(view(run, shell, "%%compile --run 3", "long(2.0)"))
    assert re.search(r"Measured\n.*\n.*\n +3( +[\d.]+ [nµm]?s){3}\n", words)
    assert "Time per stage: left out, it changes from run to run" in words
    assert "Time per stage: left out" in str(view(run, shell, "%%compile", "long(2.0)"))


def test_the_verb_prints_times() -> None:
    words = str(jaxlens.times(lambda x: x * 2.0 + 1.0, 3.0))
    assert re.search(r"Time per stage\n.*\n.*\n( +[\d.]+ [nµm]?s){5}\n", words)


@pytest.mark.parametrize("line", ["%%jaxpr --captured", "%%compile --captured"])
def test_captured_arrays(run: Any, shell: Any, line: str) -> None:
    words = " ".join(str(view(run, shell, line, "holding(2.0)")).split())
    assert "One array is closed over, `table` (f32[3000], 12 kB), a global of `holding`" in words


def test_a_wrong_use_is_one_line() -> None:
    cap = jaxlens.capture(lambda x: x + 1, 1.0)
    with pytest.raises(OptionError, match=r"^jaxlens\.times takes "):
        jaxlens.times(cap, scans=True)
    with pytest.raises(OptionError, match=r"^jaxlens\.captured takes "):
        jaxlens.captured(cap, 3)
