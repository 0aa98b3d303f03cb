"""The seconds of each instruction, from JAX's profiler."""

from functools import partial

import jax
import jax.numpy as jnp

from jaxlens.stages.measure.execute import run
from jaxlens.stages.measure.instruction_times import run_profiled


def test_a_product_that_a_cpus_thread_pool_computes_is_measured_to_its_end():
    """Its event ends when it is handed over: the product had a tenth of the run's seconds."""
    x = jnp.ones((1024, 1024))
    compiled = jax.jit(lambda x: (x + 1).T @ x).lower(x).compile()
    done = run_profiled(partial(run, compiled, (x,), 3, {}, ()), "jit__lambda", 1)
    assert sum(done.instructions.values()) > 0.7 * sum(done.seconds) / 3
