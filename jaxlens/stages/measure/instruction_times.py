"""Measures the seconds of each HLO instruction of a running program with JAX's profiler.

XLA's runtime annotates each event with the names of the instruction and of its module. Profiling
has an overhead, largest for small kernels: the shares are more reliable than the sums.
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
    """Profiles a `with watch.running():` block and sums its seconds by instruction.

    Attributes:
        seconds: Seconds by instruction name; empty until the block ends.
    """

    def __init__(self, module: str) -> None:
        """Args:
        module: Name of the HLO module whose instructions count ("jit_step").
        """
        self._module = module
        self.seconds: Mapping[str, float] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Runs the profiler during the `with` block.

        Raises:
            UnavailableError: The profiler cannot start, as during a session of the user's.
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
    """Returns the seconds of every instruction of a module, summed over its executions."""
    profiler: Any = jax.profiler
    found: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of a class of the bindings
        profile = profiler.ProfileData.from_serialized_xspace(data)
        for event in (e for p in profile.planes for line in p.lines for e in line.events):
            known = dict(event.stats)
            name = known.get("hlo_op")
            if name and str(known.get("hlo_module", "")).partition("(")[0] == module:
                found[str(name)] += event.duration_ns * 1e-9
    return dict(found)
