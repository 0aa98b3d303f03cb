"""No magic has side effects: nothing runs, no state changes, no file stays."""

import logging
import os
import random
import sys
import tempfile
import warnings

import jax
import numpy as np
import pytest

VERBS = ["jaxpr", "hlo", "compile", "explore", "hlo --passes", "compile --asm"]

SETUP = """
import jax, jax.numpy as jnp, numpy as np, random, os, warnings
from jax.experimental import io_callback
x = jnp.arange(6.0).reshape(2, 3)
ran = []
def effects(x):
    jax.debug.print("ran {}", x.sum())
    io_callback(lambda a: ran.append("io"), None, x)
    y = jax.pure_callback(lambda a: ran.append("pure") or a, x, x)
    return y * np.random.rand() * random.random()
def meddles(x):
    os.environ["MEDDLED"] = "1"
    warnings.simplefilter("error")
    jax.config.update("jax_enable_x64", True)
    return x
def fails(x):
    meddles(x)
    random.random(), np.random.rand()
    raise KeyError("mine")
def refused(x):
    return jax.lax.custom_linear_solve(1, x, 2)
jitted = jax.jit(lambda x: jnp.sin(x) * 2)
"""


@pytest.fixture
def cell(run, tmp_path, monkeypatch):
    """Runs a cell in a folder of its own, so that every new file is noticed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return run


def state():
    return {
        "settings": dict(jax.config.values),
        "environment": dict(os.environ),
        "filters": list(warnings.filters),
        "python": random.getstate(),
        "numpy": str(np.random.get_state()),
        "folder": os.getcwd(),
        "path": list(sys.path),
        "depth": sys.getrecursionlimit(),
        "display": sys.displayhook,
        "files": sorted(os.listdir()),
    }


@pytest.mark.parametrize("call", ["effects(x)", "meddles(x)", "fails(x)", "refused(x)", "none"])
@pytest.mark.parametrize("verb", VERBS)
def test_all_is_as_before(cell, shell, verb, call):
    names, before = set(shell.user_ns), state()
    ran = cell(f"%%{verb}\nmade = 1\n{call}")
    if call == "fails(x)":
        # What cannot be traced is called, and changes what it changes: once, as without a magic.
        assert isinstance(ran.error, KeyError)
        assert os.environ.pop("MEDDLED") == "1"
        jax.config.update("jax_enable_x64", False)
        for name in ("filters", "python", "numpy"):
            before.pop(name)
        assert {name: state()[name] for name in before} == before
        return
    assert state() == before
    assert shell.user_ns["ran"] == []
    assert {n for n in set(shell.user_ns) - names if not n.startswith("_")} == {"made"}


@pytest.mark.parametrize("verb", VERBS)
def test_the_next_call_is_as_if_nobody_had_looked(cell, shell, caplog, verb):
    """It compiles once, and a look does not clear its cache."""
    steps = ("Finished tracing <lambda>", "Finished XLA compilation of jit(<lambda>)")

    def done():
        caplog.clear()
        with jax.log_compiles(), caplog.at_level(logging.WARNING):
            assert cell("jitted(x);").ok
        said = [record.getMessage() for record in caplog.records]
        return [sum(step in line for line in said) for step in steps]

    assert cell(f"%%{verb}\njitted(x)").ok
    assert shell.user_ns["jitted"]._cache_size() == 0
    assert done() == [1, 1]
    assert cell(f"%%{verb}\njitted(x)").ok
    assert done() == [0, 0]
    assert shell.user_ns["jitted"]._cache_size() == 1


def test_donated_arrays_live_and_are_still_donated_by_a_call(cell, shell):
    assert cell("step = jax.jit(lambda x: x + 1, donate_argnums=0)\ny = x + 0").ok
    for verb in (*VERBS, "compile --run 2"):
        assert cell(f"%%{verb}\nstep(y)").ok
    assert shell.user_ns["y"].sum() == 15.0
    assert cell("step(y);").ok
    assert shell.user_ns["y"].is_deleted()
