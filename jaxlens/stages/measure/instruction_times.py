"""Seconds of each HLO instruction of a running program, from JAX's profiler.

XLA's runtime marks what it executes with the instruction's name and its module's. Watching costs
time of its own, which weighs most on small kernels: the shares say more than the sums.
"""

import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from jaxlens.errors import UnavailableError
from jaxlens.stages.compile.dump_files import full, no_room, remove
from jaxlens.stages.compile.profile import end


class Watch:
    """Seconds by instruction, once the block that it surrounds is done."""

    def __init__(self, module: str) -> None:
        """Args:
        module: Name of the HLO module whose instructions count ("jit_step").
        """
        self._module = module
        self.seconds: Mapping[str, float] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Within it the profiler runs.

        Raises:
            UnavailableError: The user's own session runs, and a process can have one.
        """
        profiler: Any = jax.profiler
        options = profiler.ProfileOptions()
        options.python_tracer_level, options.host_tracer_level = 0, 2
        try:
            path = Path(tempfile.mkdtemp(prefix="jaxlens-run-"))
        except OSError as error:
            raise UnavailableError(no_room(Path(tempfile.gettempdir()), error)) from None
        try:
            _start(str(path), options)
            try:
                yield
            finally:
                _end(path)
            data = b"".join(file.read_bytes() for file in path.rglob("*.xplane.pb"))
            self.seconds = by_instruction(data, self._module)
        finally:
            remove(path)


def _start(path: str, options: Any) -> None:
    profiler: Any = jax.profiler
    try:
        profiler.start_trace(path, profiler_options=options)
    except Exception as error:
        line = (str(error).splitlines() or [type(error).__name__])[0][:160]
        raise UnavailableError(f"no time of single kernels: the profiler says {line!r}") from None


def _end(path: Path) -> None:
    try:
        end(path)
    except Exception as error:
        line = (str(error).splitlines() or [type(error).__name__])[0][:160]
        raise UnavailableError(f"no time of single kernels: {full(path) or line}") from None


def by_instruction(data: bytes, module: str) -> dict[str, float]:
    """Seconds of every instruction of a module in a profile, all its executions together."""
    profiler: Any = jax.profiler
    found: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of a class that the bindings make
        profile = profiler.ProfileData.from_serialized_xspace(data)
        for event in (e for p in profile.planes for line in p.lines for e in line.events):
            known = dict(event.stats)
            name = known.get("hlo_op")
            if name and str(known.get("hlo_module", "")).partition("(")[0] == module:
                found[str(name)] += event.duration_ns * 1e-9
    return dict(found)
