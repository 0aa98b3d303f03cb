"""The seconds of each instruction, from JAX's profiler."""

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from jaxlens.stages.measure.execute import run
from jaxlens.stages.measure.instruction_times import by_instruction, run_profiled

pytestmark = pytest.mark.reads_jax


def test_a_product_that_a_cpus_thread_pool_computes_is_measured_to_its_end():
    """Its event ends when it is handed over: the product had a tenth of the run's seconds."""
    x = jnp.ones((1024, 1024))
    compiled = jax.jit(lambda x: (x + 1).T @ x).lower(x).compile()
    done = run_profiled(partial(run, compiled, (x,), 3, {}, ()), "jit__lambda", 1)
    assert sum(done.instructions.values()) > 0.7 * sum(done.seconds) / 3


def test_an_instruction_without_an_end_has_no_seconds(monkeypatch):
    def event(name, start, length, **stats):
        return SimpleNamespace(name=name, start_ns=start, duration_ns=length, stats=stats.items())

    events = [
        event("add", 0, 10, hlo_op="add", hlo_module="jit_f(1)", _p=1),
        event("end: add", 30, 0, _c=1),
        event("dot", 40, 10, hlo_op="dot", hlo_module="jit_f(1)", _p=2),
    ]
    planes = [SimpleNamespace(lines=[SimpleNamespace(events=events)])]
    data = SimpleNamespace(from_serialized_xspace=lambda data: SimpleNamespace(planes=planes))
    monkeypatch.setattr(jax.profiler, "ProfileData", data)
    assert by_instruction(b"", "jit_f") == {"add": 10e-9}
