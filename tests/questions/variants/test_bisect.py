"""What a test disabled or set, and a pass that it blames, is what the bisection finds."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.errors import OptionError
from jaxlens.questions.variants.bisected import TrialChange, TrialProgram
from jaxlens.questions.variants.measure.bisect import judged
from jaxlens.stages.child import child as other_process

pytestmark = pytest.mark.reads_jax

X = np.float32([1 / 3, 0.1, 7.7])


class Answer:
    def __init__(self, fine):
        self.fine = fine

    def __bool__(self):
        return self.fine


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        *((value, "at fault") for value in (False, np.False_, jnp.asarray(False), 0, 0.0, "", ())),
        *((value, "at fault") for value in (np.array([False]), np.zeros((1, 1)), Answer(False))),
        *((value, "fine") for value in (None, True, np.True_, jnp.asarray(True), 1, "yes")),
        (Answer(True), "fine"),
    ],
)
def test_a_check_that_returns_anything_false_but_none_finds_a_fault(answer, outcome):
    assert judged(None, lambda program: answer, TrialProgram(())).outcome == outcome


@pytest.mark.parametrize("answer", [np.array([True, False]), jnp.ones(3)])
def test_an_answer_that_is_neither_true_nor_false_is_said_in_a_line(answer):
    with pytest.raises(OptionError, match=r"must return True, False or None, got .*ambiguous"):
        judged(None, lambda program: answer, TrialProgram(()))


def test_it_finds_the_flag_that_was_set():
    options = {"xla_cpu_enable_fast_math": True, "xla_cpu_enable_fast_min_max": True}
    big = np.float32(1e8)
    cap = jaxlens.capture(
        jax.jit(lambda x, big: (x + big) - big, compiler_options=options), jnp.asarray(X), big
    )
    found = jaxlens.bisect(cap, lambda p: (p.outputs[0] == (X + big) - big).all(), run=1)
    assert found.found == TrialChange("flag", "xla_cpu_enable_fast_math=true")
    assert found.trials[0].outcome == "at fault"
    assert "It is fine without the flag xla_cpu_enable_fast_math=true." in repr(found)
    assert "xla_cpu_enable_fast_math" in found.html()


def test_it_finds_the_pass_that_was_disabled():
    options = {"xla_disable_hlo_passes": "cse,algsimp"}
    cap = jaxlens.capture(jax.jit(lambda x: x / 4 + 2, compiler_options=options), jnp.asarray(X))

    def check(program):
        assert np.array_equal(program.outputs[0], X / 4 + 2)
        assert program.seconds > 0
        assert program.temporaries is not None
        assert " divide(" not in program.hlo, "it divides"

    found = jaxlens.bisect(cap, check, run=1)
    assert found.found == TrialChange("flag", "xla_disable_hlo_passes=algsimp")
    assert found.trials[0].why == "it divides"
    assert [t.tried for t in found.trials[1:]] == [
        f"without the flag xla_disable_hlo_passes={name}" for name in ("cse", "algsimp")
    ]


def test_it_finds_the_pass_that_is_at_fault():
    cap = jaxlens.capture(lambda x: jnp.sin(x) / 4 + 2, jnp.asarray(X))
    found = jaxlens.bisect(cap, lambda p: " divide(" in p.hlo, run=0)
    assert found.found == TrialChange("pass", "algsimp")


def test_that_none_makes_it_fine_is_said():
    cap = jaxlens.capture(
        jax.jit(lambda x: x + 1, compiler_options={"xla_cpu_enable_fast_math": True}), 1.0
    )
    found = jaxlens.bisect(cap, lambda program: False, run=0)
    assert found.found is None
    assert "makes it fine when it alone is left out" in " ".join(repr(found).split())


# As XLA does with some flags: the process ends.
CRASH = """
import os, sys
from jaxlens.stages.child import main
real = main.compile_lowered
def crashing(lowered, **options):
    if options["flags"].get("xla_cpu_enable_fast_math"):
        sys.stderr.write("F0000 Check failed: a test's")
        sys.stderr.flush()
        os.abort()
    return real(lowered, **options)
main.compile_lowered = crashing
main.serve()
"""


def test_a_crash_of_xla_is_a_fault_and_fine_is_said(monkeypatch):
    monkeypatch.setattr(other_process, "COMMAND", [sys.executable, "-c", CRASH])
    options = {"xla_cpu_enable_fast_math": True}
    cap = jaxlens.capture(jax.jit(lambda x: x + 1, compiler_options=options), jnp.asarray(X))
    found = jaxlens.bisect(cap, lambda program: True, run=1)
    assert "Check failed: a test's" in found.trials[0].why
    assert found.found == TrialChange("flag", "xla_cpu_enable_fast_math=true")
    fine = jaxlens.bisect(jaxlens.capture(lambda x: x + 1, 1.0), lambda program: None, run=0)
    assert fine.found is None
    assert "The program as it is is fine." in repr(fine)
