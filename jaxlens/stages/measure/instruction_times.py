"""Measures the seconds of each HLO instruction of a running program with JAX's profiler.

XLA's runtime annotates each event with the names of the instruction and of its module. Profiling
has an overhead, largest for small kernels: the shares are more reliable than the sums.

On a GPU XLA launches many kernels at once, as a CUDA graph, and their events have the name of the
graph in the place of the instruction's (jax 0.11.2). Then the instructions are measured in a second
compile of the program, which has the same kernels and no graphs.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import jax

from jaxlens.errors import UnavailableError, first_line
from jaxlens.ir.driver import Run
from jaxlens.stages.compile import profile

NO_GRAPHS = {"xla_gpu_graph_min_graph_size": 2**30}
"""The option with which XLA collects no kernels into CUDA graphs."""
ONE_BY_ONE = "in a second compile, which launches each by itself and not in CUDA graphs"
"""How the instructions of a program are measured that launches graphs."""


def run_profiled(
    run: Callable[[AbstractContextManager[None]], Run], module: str, devices: int
) -> Run:
    """Executes a program under JAX's profiler, and adds the seconds of each instruction.

    Args:
        run: Executes the program, within the context manager that is its argument.
        module: Name of the HLO module whose instructions count ("jit_step").
        devices: Number of devices, each of which executes every run.

    Raises:
        UnavailableError: The profiler cannot start, as during a session of the user's.
    """
    seconds: Counter[str] = Counter()
    done = run(_profiling(module, seconds))
    executions = len(done.seconds) * devices
    return replace(
        done,
        instructions={name: total / executions for name, total in seconds.items()},
        how=f"{done.how}, under the profiler",
    )


def launches_graphs(done: Run) -> bool:
    """Whether a measured program launched kernels as CUDA graphs."""
    return any(name.startswith(profile.GRAPH) for name in done.instructions or ())


@contextmanager
def _profiling(module: str, seconds: Counter[str]) -> Iterator[None]:
    """Adds the seconds of each instruction that runs in the block, at its end."""
    try:
        path = profile.start("jaxlens-run-", host_level=2)
    except UnavailableError:
        raise
    except Exception as error:
        raise UnavailableError(
            f"no time of single kernels: the profiler says {first_line(error)!r}"
        ) from None
    try:
        yield
    finally:
        try:
            data = profile.end(path)
        except UnavailableError as error:
            raise UnavailableError(f"no time of single kernels: {error}") from None
    seconds.update(by_instruction(data, module))


def by_instruction(data: bytes, module: str) -> dict[str, float]:
    """Returns the seconds of every instruction of a module, summed over its executions."""
    profiler: Any = jax.profiler
    seconds: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of a class of the bindings
        planes = profiler.ProfileData.from_serialized_xspace(data).planes
        for event in (e for plane in planes for line in plane.lines for e in line.events):
            stats = dict(event.stats)
            name = stats.get("hlo_op")
            if name and str(stats.get("hlo_module", "")).partition("(")[0] == module:
                seconds[str(name)] += event.duration_ns * 1e-9
    return dict(seconds)
