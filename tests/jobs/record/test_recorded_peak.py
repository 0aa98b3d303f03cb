"""The memory of a recorded program: XLA's sizes and allocations, which tell of no peak."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.errors import UnavailableError
from jaxlens.questions.memory.peak import memory_use
from jaxlens.report import amount
from jaxlens.stages.compile.loaded_executable import LoadedExecutable

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
    true, ours = memory_use(live), memory_use(record)
    assert (ours.peak, ours.at_peak, ours.spaces) == (None, (), ())
    assert ours.constants == true.constants > 0
    for name in ("reserved", "arguments", "outputs", "temporaries", "aliases"):
        assert getattr(ours, name) == getattr(true, name)
    said = " ".join(str(jaxlens.memory(record)).split())
    assert f"It takes {amount(true.reserved)} from start to end; when it is most" in said
    assert "is not known: XLA gives no live ranges here" in said
    (file,) = (tmp_path / "programs").iterdir()
    assert memory_use(jaxlens.load(file)) == ours  # where there is no JAX


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
