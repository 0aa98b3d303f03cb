"""A call run and measured, and tried when written otherwise: what costs more than a look."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import jax

from jaxlens.errors import UnavailableError
from jaxlens.ir.device_limits import Limits
from jaxlens.ir.driver import Driver, Loop, Run
from jaxlens.ir.facts import Trial
from jaxlens.stages.experiments import scan
from jaxlens.stages.measure import instruction_times
from jaxlens.stages.measure.execute import run
from jaxlens.stages.measure.measured_limits import measured
from jaxlens.stages.session.compiling import Compiling
from jaxlens.stages.session.tracing import TracedCall


class Running(Driver):
    """Runs and measurements of one call; nothing else of a capture runs the user's program.

    Attributes:
        staging: The call, traced and lowered.
        compiling: The same, compiled.
    """

    def __init__(self, staging: TracedCall, compiling: Compiling) -> None:
        self.staging = staging
        self.compiling = compiling

    def given(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call's arguments without static ones.

        Raises:
            UnavailableError: An array is gone.
        """
        return self.staging.given()

    @property
    def executable(self) -> Any:
        """JAX's own compiled object."""
        return self.compiling.compiled().executable

    def run(self, n: int) -> Run:
        """Executes the program `n` times and measures it.

        Raises:
            OptionError: `n` is below 1, or an argument is a shape without data.
            UnavailableError: The program was compiled for a device that is not here, or the
                call's arrays are gone.
        """
        # Taken first: compiling lets go of arrays that only this call keeps.
        args, kwargs = self.given()
        return run(self.executable, args, n, kwargs, self._names())

    def run_watched(self, n: int) -> Run:
        """`run` with the seconds of each instruction, from the profiler, which slows it.

        Raises:
            UnavailableError: As `run`, or the profiler is not to be had.
        """
        args, kwargs = self.given()
        watch = instruction_times.Watch(self.compiling.compiled().optimized.module.name)
        done = run(self.executable, args, n, kwargs, self._names(), watch.running())
        times = n * self.staging.place.target.devices  # every device runs it
        each = {name: seconds / times for name, seconds in watch.seconds.items()}
        return replace(done, instructions=each, how=f"{done.how}, under the profiler")

    def _names(self) -> list[str]:
        return [leaf.name for leaf in self.staging.call.inputs]

    def limits(self, dtypes: Iterable[str]) -> Limits:
        """What a device of this capture's kind does at most, measured once per process.

        Args:
            dtypes: Element types of the products that matter.

        Raises:
            UnavailableError: The device is not in this process.
        """
        target = self.staging.place.target
        if target.absent:
            raise UnavailableError(
                f"{target.kind} is not here to be measured: name it, as in --roofline h100"
            )
        return measured(target.platform, dtypes)

    def rolled(self, region: str, loops: Sequence[Loop], run: bool) -> Trial:
        """What scans in the place of unrolled loops would change; both programs are compiled.

        Args:
            region: The body of the jaxpr that the loops stand in.
            loops: First equation, equations of a repetition and repetitions of each, in order.
            run: Execute both on random inputs, and compare.

        Raises:
            UnavailableError: A loop cannot be written as a scan by us.
        """
        if self.staging.by_core:
            raise UnavailableError("programs of jaxlens.core are not tried: compile one by JAX")
        target = self.staging.place.target
        if target.absent or target.devices > 1 or target.platform != jax.default_backend():
            raise UnavailableError(
                "a trial is compiled for one device, where JAX runs by default; "
                "look at the call without --target"
            )
        return scan.trial(self.staging.traced.jaxpr, region, loops, run)
