"""One process of a job of several, under `jax.distributed`, that records what it compiles.

    python -m tests.backend.two_hosts INDEX COUNT PORT FOLDER WHAT...

What the processes do not have in common is WHAT: nothing, a constant, a batch, a program. Each is a
record of its own in FOLDER.
"""

import sys

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import jaxlens


def main(index: int, count: int, port: str) -> None:
    """Joins the job."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 2)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", count, index)


def compile_some(index: int, count: int, folder: str, what: str) -> None:
    """Records programs of this process and of all."""
    own = index == count - 1  # the process that differs
    mesh = jax.make_mesh((2 * count,), ("data",))
    place = NamedSharding(mesh, PartitionSpec("data"))
    rows = 4 * count * (2 if own and what == "batch" else 1)

    def array(rows):
        shape = (rows, 8)
        return jax.make_array_from_callback(
            shape, place, lambda part: np.ones(shape, np.float32)[part]
        )

    rate = 3.0 if own and what == "constant" else 2.0
    local = jax.jit(lambda x: x + index)
    init = jax.jit(lambda x: x * 2)

    def step(x):
        return (x * rate).sum()

    with jaxlens.record(f"{folder}/{what}"):
        local(np.ones(3, np.float32))
        init(array(4 * count)).block_until_ready()
        if what == "nothing":
            assert float(jax.jit(step)(array(rows))) == 2.0 * 8 * rows
        elif not (own and what == "program"):
            jax.jit(step).lower(array(rows)).compile()  # it would wait for the others if it ran


if __name__ == "__main__":
    place = (int(sys.argv[1]), int(sys.argv[2]))
    main(*place, sys.argv[3])
    for what in sys.argv[5:]:
        compile_some(*place, sys.argv[4], what)
