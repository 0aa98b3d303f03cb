"""Measures the seconds of each HLO instruction of a running program with JAX's profiler.

XLA's runtime annotates each event with the names of the instruction and of its module. Profiling
has an overhead, largest for small kernels: the shares are more reliable than the sums.

On a GPU XLA launches many kernels at once, as a CUDA graph, and their events have the name of the
graph in the place of the instruction's (jax 0.11.2). Then the instructions are measured in a second
compile of the program, which has the same kernels and no graphs.

On a CPU an event ends when a kernel is handed to the thread pool, as each product is. An event
"end: NAME" follows on the thread that completes it, after the kernels that this thread runs next.
"""

import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import jax

from jaxlens.errors import UnavailableError
from jaxlens.interrupts import uninterrupted
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
    profiles: list[bytes] = []
    done = run(_profiling(profiles))
    executions = len(done.seconds) * devices
    seconds = by_instruction(profiles[0], module)
    return replace(
        done,
        instructions={name: total / executions for name, total in seconds.items()},
        how=f"{done.how}, under the profiler",
    )


def launches_graphs(done: Run) -> bool:
    """Whether a measured program launched kernels as CUDA graphs."""
    return any(name.startswith(profile.GRAPH) for name in done.instructions or ())


@uninterrupted
def _profiling(profiles: list[bytes]) -> Iterator[None]:
    """Adds the profile of what runs in the block, at its end."""
    session = profile.Session(host_level=2)
    try:
        session.start()
        if not session.note:
            yield
            time.sleep(0.05)  # a CPU's thread writes the end of the last kernel after its result
    finally:
        profiles.append(session.stop())
    if session.note:
        raise UnavailableError(f"no time of single kernels: {session.note}")


def by_instruction(data: bytes, module: str) -> dict[str, float]:
    """Returns the seconds of every instruction of a module, summed over its executions.

    On a CPU, an instruction of which the profiler lacks an end has no seconds.
    """
    profiler: Any = jax.profiler
    seconds = defaultdict[str, float](float)
    begun: dict[Any, tuple[str, float]] = {}  # name and end of the event, by its number
    ended: list[tuple[Any, float]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of a class of the bindings
        planes = profiler.ProfileData.from_serialized_xspace(data).planes
        for line in (line for plane in planes for line in plane.lines):
            since: float | None = None  # start of the first kernel that the thread ran in a row
            for event in sorted(line.events, key=lambda event: event.start_ns):
                stats = dict(event.stats)
                name = stats.get("hlo_op")
                if name and str(stats.get("hlo_module", "")).partition("(")[0] == module:
                    seconds[str(name)] += event.duration_ns * 1e-9
                    begun[stats.get("_p")] = str(name), event.start_ns + event.duration_ns
                    since = event.start_ns if since is None else since
                elif event.name.startswith("end: "):
                    ended.append((stats.get("_c"), event.start_ns if since is None else since))
                elif event.name == "ThreadpoolListener::StartRegion":
                    since = None
    for number, end in ended:
        if number in begun:
            name, handed = begun[number]
            seconds[name] += max(end - handed, 0) * 1e-9
    if ended:
        for number in begun.keys() - {None, *(number for number, _ in ended)}:
            seconds.pop(begun[number][0], None)
    return dict(seconds)
