"""The memory peak of a recorded program is that of a live capture of the same call."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.errors import UnavailableError
from jaxlens.lenses.memory.peak import memory_use, timeline
from jaxlens.report import amount
from jaxlens.stages.compile.loaded_executable import LoadedExecutable

pytestmark = pytest.mark.backend

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


def shown(values, others):
    """Values without what is known by exact ids alone, which a job's programs do not have.

    These are residuals, and lines of instructions that XLA left without a frame.
    """
    lines = [a.line if a.span else b.line for a, b in zip(values, others, strict=True)]
    return [replace(v, saved=False, line=line) for v, line in zip(values, lines, strict=True)]


def test_it_is_that_of_a_live_capture(tmp_path):
    live, record = recorded(tmp_path, lambda w, x: w - 0.1 * jax.grad(loss)(w, x), 0)
    true, ours = memory_use(live), memory_use(record)
    assert ours.peak > 3 * ARGUMENTS[0].nbytes
    line = loss.__code__.co_firstlineno + 2  # the scan stacks one of its rows a trip
    assert ours.by_line[f"test_recorded_peak.py:{line}"] > 5 * ARGUMENTS[1].nbytes
    assert shown(ours.at_peak, true.at_peak) == shown(true.at_peak, true.at_peak)
    rest = {"at_peak": (), "by_line": {}, "saved": true.saved}
    assert replace(ours, **rest) == replace(true, **rest)
    curve, other = timeline(record), timeline(live)
    (file,) = (tmp_path / "programs").iterdir()
    assert memory_use(jaxlens.load(file)) == ours  # where there is no JAX
    assert shown(curve.values, other.values) == shown(other.values, other.values)
    assert curve.sizes == other.sizes
    said = f"the largest program is that of <lambda> (#0): the peak is {amount(ours.peak).lower()}"
    assert said in " ".join(str(jaxlens.runs(tmp_path)).lower().split())


@pytest.mark.parametrize("data", [None, b"", b"\x0a\x02\x08\x01", b"\x1a\xff"])
def test_an_executable_without_one_that_can_be_read(tmp_path, monkeypatch, data):
    class Stats:
        """What a backend gives that has sizes only, or another message."""

        argument_size_in_bytes = 5000

        if data is not None:
            serialized_buffer_assignment_proto = data

    monkeypatch.setattr(LoadedExecutable, "_memory_stats", Stats)
    _, record = recorded(tmp_path, lambda w, x: x @ w)
    with pytest.raises(UnavailableError, match="no buffer assignment"):
        _ = record.buffers
    use = memory_use(record)
    assert (use.peak, use.arguments) == (None, 5000)
    assert "no buffer assignment" in use.missing
    assert "ROOT" in record.optimized.text
