"""The memory of a recorded program: XLA's sizes, which tell of no peak."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.captures import capture_of
from jaxlens.ir.saved.driver import SavedDriver
from jaxlens.ir.saved.job_files import read_program
from jaxlens.questions.memory.facts import facts
from jaxlens.report import amount

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]

ARGUMENTS = np.ones((32, 32), np.float32), np.ones((6, 32), np.float32)


def loss(w, x):
    def body(h, _):
        h = jnp.tanh(h @ w)
        return h, h.sum()

    h, sums = jax.lax.scan(body, x, None, length=5)
    return h.sum() + sums.sum()


def recorded(path, f, donated=()):
    """Returns a capture of a new jitted function, and that of its call in a record."""
    step = jax.jit(lambda w, x: f(w, x), donate_argnums=donated)
    with jaxlens.record(path):
        step(*map(jnp.asarray, ARGUMENTS))
    return jaxlens.capture(step, *ARGUMENTS), jaxlens.runs(path)[0].capture


def test_what_it_reserves_is_that_of_a_live_capture_and_its_peak_is_not_known(tmp_path):
    live, record = recorded(tmp_path, lambda w, x: w - jax.grad(loss)(w, x), 0)
    true, ours = facts(live), facts(record)
    assert (ours.peak, ours.at_peak, ours.spaces) == (None, (), ())
    for name in ("arguments", "outputs", "temporaries", "aliases"):
        assert getattr(ours, name) == getattr(true, name)
    assert ours.reserved == true.reserved - true.kind("constant")
    said = " ".join(str(jaxlens.memory(record)).split())
    assert f"It takes {amount(ours.reserved)} from start to end; when it is most" in said
    assert "is not known: the record of a job holds no buffer assignment; look at the call" in said
    job = jaxlens.runs(tmp_path).job
    archive = read_program(job, *job.programs)
    assert facts(capture_of(archive, SavedDriver)) == ours  # where there is no JAX
