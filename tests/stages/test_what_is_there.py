"""A capture says which stages are there and what the others would take, and computes nothing."""

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from tests.support.jax_events import Compiles
from tests.support.paths import RECORDS

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]
X = jnp.ones(4)
COMPILED = "HLO passes, Optimised HLO, LLVM IR, Assembly"


def test_looking_traces_and_compiles_nothing():
    traced = []

    def counted(x):
        traced.append(x)
        return jnp.tanh(x) * 2

    cap = jaxlens.capture(counted, X)
    with Compiles() as compiles:
        shown = repr(cap)
    assert (traced, compiles.names) == ([], [])
    assert shown.splitlines() == [
        "Capture of counted(x) with 1 array, on cpu",
        "  there: nothing yet",
        "  when asked: a trace gives jaxpr; lowering gives StableHLO, HLO before optimisation; "
        f"a compile gives {COMPILED}",
    ]


def test_it_says_what_each_step_has_given(monkeypatch):
    small = jaxlens.capture(lambda x: jnp.sin(x) + 1, X)
    assert small.optimized
    assert repr(small).splitlines()[2] == "  when asked: nothing more"
    monkeypatch.setattr("jaxlens.stages.compile.xla_options._SMALL", 0)  # as for a large program
    cap = jaxlens.capture(lambda x: jnp.sin(x) + 1, X)
    _ = cap.jaxpr
    assert repr(cap).splitlines()[1] == "  there: jaxpr"
    _ = cap.optimized
    assert repr(cap).splitlines()[2] == "  when asked: another compile gives HLO passes"
    _ = cap.passes
    assert repr(cap).splitlines()[2] == "  when asked: nothing more"


@pytest.mark.parametrize(
    ("step", "there", "lacks"),
    [
        (lambda f: f.trace(X), "jaxpr", ""),
        (lambda f: f.lower(X), "StableHLO, HLO before optimisation", "Lowered has no jaxpr"),
        (lambda f: f.lower(X).compile(), "Optimised HLO", "Compiled has no jaxpr, StableHLO"),
    ],
)
def test_of_a_program_that_exists_it_names_what_there_is_not(step, there, lacks):
    lines = repr(jaxlens.capture(step(jax.jit(lambda x: x * 2)))).splitlines()
    assert len(lines) == 3
    assert lines[1] == f"  there: {there}"
    assert lacks in lines[2]


def test_a_file_names_what_was_not_saved():
    loaded = jaxlens.load(RECORDS / "attention.tpu-v5e-2x2.jaxlens")
    assert repr(loaded).endswith("a capture loaded from a file has no LLVM IR, Assembly")
