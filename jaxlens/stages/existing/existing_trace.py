"""Captures of an existing Traced, Lowered, StableHLO module or unoptimised HLO.

`ExistingTrace` has the interface of a call's `TracedCall`. Facts that need the call itself (its
cache verdict, line trace or arguments) raise UnavailableError.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, NoReturn

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.driver import Attempt, Driver, Variant, no_call
from jaxlens.ir.facts import Constant, Input, LineTrace, Program, Source, Stage, Target, Timing
from jaxlens.ir.hlo.frames import origins
from jaxlens.stages import compat
from jaxlens.stages.arguments import captured_arrays
from jaxlens.stages.call import isolate
from jaxlens.stages.call.call import Call
from jaxlens.stages.call.target import ResolvedTarget
from jaxlens.stages.call.traceable import TraceableCall
from jaxlens.stages.driver import LiveDriver
from jaxlens.stages.session.compiling import Compiling
from jaxlens.stages.session.program_stages import stablehlo_stage
from jaxlens.stages.session.tracing import TracedCall
from jaxlens.stages.trace import lower, sources, stamp, trace


class ExistingTrace(TracedCall):
    """The existing trace or lowering of a program; makes the lowering if it is missing.

    Args:
        name: The program's name.
        inputs: The array leaves of its arguments.
        target: The target.
        holder: What the program was read from, as a noun with its article: "a jax.stages.Lowered".
        cure: How to get missing facts, as the end of an error message.
        traced: The `jax.stages.Traced`; None if there is none.
        make: Returns the existing lowered object; None if `traced` is to be lowered.
        outputs: Returns the outputs.
    """

    def __init__(
        self,
        name: str,
        inputs: tuple[Input, ...],
        target: Target,
        holder: str,
        cure: str,
        *,
        outputs: Callable[[], tuple[Input, ...]],
        traced: Any = None,
        make: Callable[[], Any] | None = None,
    ) -> None:
        super().__init__(TraceableCall(name, _nothing, inputs=inputs), ResolvedTarget(target))
        self.holder = holder
        self.cure = cure
        self._make = make
        self._outputs = outputs
        if traced is not None:
            survey = captured_arrays.survey(traced.jaxpr)
            self.__dict__["_trace"] = trace.Trace(traced, survey, 0.0, isolate.context())
        self.verdict = no_call(holder)

    def lacks(self, fact: str) -> NoReturn:
        """Raises UnavailableError, with the advice on how to get the missing fact."""
        raise UnavailableError(f"{self.holder} holds no {fact}; {self.cure}")

    @property
    def _existing_trace(self) -> trace.Trace:
        if "_trace" not in self.__dict__:
            self.lacks("jaxpr")
        return self._trace

    @property
    def traced(self) -> Any:
        """The `jax.stages.Traced`."""
        return self._existing_trace.traced

    @cached_property
    def lowering(self) -> lower.Lowering:
        """The existing lowering, or a new one of the existing trace."""
        if self._make is not None:
            return lower.Lowering(self._make(), 0.0)
        done = self._existing_trace
        with isolate.untouched(done.context):
            lowered, ids = stamp.lowered(done.traced, lambda t: t.lower())
        # JAX caches one module per trace; the stamps go into a copy of it.
        return lower.Lowering(compat.own_copy(lowered) or lowered, 0.0, "", ids)

    @property
    def stand_in(self) -> str:
        """Always "": the existing program is compiled, however large its constants are."""
        return ""

    @property
    def is_whole(self) -> bool:
        """Always False: the types of the call are not known of every existing program."""
        return False

    def waiting(self) -> Callable[[float], None] | None:
        """Always None, no limit: a stand-in can be made of a call only."""
        return None

    def deviations(self) -> tuple[str, ...]:
        """Always (): the existing program is the one that is compiled."""
        return ()

    @cached_property
    def constants(self) -> tuple[Constant, ...]:
        """Arrays that the traced function closes over."""
        arrays = captured_arrays.constants(self._existing_trace.survey, _nothing)
        return tuple(replace(array, held="") for array in arrays)

    @cached_property
    def outputs(self) -> tuple[Input, ...]:
        """Outputs with their pytree paths."""
        return self._outputs()

    def has(self, step: Literal["_trace", "lowering"]) -> bool:
        """Whether a step was done, here or before."""
        return super().has(step) or (step == "lowering" and self._make is not None)

    def times(self) -> tuple[Timing, ...]:
        """Always (): the program was traced and lowered before."""
        return ()

    def given(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Raises UnavailableError: there are no arguments to run the program with."""
        self.lacks("arguments to run it with")

    @property
    def opened(self) -> Call:
        """Raises UnavailableError: there is no call."""
        self.lacks("Python function that could be traced")

    def line_trace(self) -> LineTrace:
        """Raises UnavailableError: nothing is traced."""
        self.lacks("Python function whose tracing could be followed")


def _nothing() -> None:
    """Placeholder for the missing function."""


class ExistingDriver(LiveDriver):
    """Makes the later stages of an existing program; raises for facts that need a call.

    Args:
        staging: The existing trace or lowering.
        stages: Stages that exist as text, used instead of making them.
        missing: Names of the earlier stages that do not exist, with their noun for the message.
    """

    def __init__(
        self, staging: ExistingTrace, stages: Mapping[str, Stage], missing: Mapping[str, str]
    ) -> None:
        super().__init__(staging)
        if "stablehlo" in missing:  # converted to compile it; its ops are not shown
            frames = origins(lambda: stablehlo_stage(staging).module)
            self.compiling = Compiling(staging, frames, self._forget_lowered)
        self.holder, self.cure = staging.holder, staging.cure
        self._stages.update(stages)
        self._missing = missing

    def stage(self, name: str) -> Stage:
        if name in self._missing:
            self.lacks(self._missing[name])
        return super().stage(name)

    def waits_for(self, name: str) -> str | None:
        return None if name in self._missing else super().waits_for(name)

    @cached_property
    def _sources(self) -> Mapping[str, Source]:
        first = next(n for n in ("jaxpr", "stablehlo", "hlo") if n not in self._missing)
        return sources.sources(self.stage(first).module)

    def rungs(self) -> tuple[Variant, ...]:
        self.lacks("Python function, of whose transforms a ladder could be made")

    def checkpointed(self) -> Iterator[Attempt[Variant]]:
        yield self.lacks("Python function, which could be traced under jax.checkpoint")


def captured(
    staging: ExistingTrace,
    stages: Mapping[str, Stage] | None = None,
    missing: Mapping[str, str] | None = None,
) -> Capture:
    """Returns the capture of an existing trace or lowering; see `ExistingDriver`."""
    driver = ExistingDriver(staging, stages or {}, missing or {})
    return read_capture(driver, staging.call.name, staging.call.inputs, staging.place.target)


def read_capture(
    driver: Driver, name: str, inputs: tuple[Input, ...], target: Target, origin: str = ""
) -> Capture:
    """Returns the capture of a program that a driver reads.

    Args:
        driver: The driver.
        name: The program's name.
        inputs: The array leaves of its arguments.
        target: The target.
        origin: What it was read from, by default the driver's `holder`.
    """
    origin = f"read from {origin or driver.holder}"
    return Capture(Program(name, inputs, (), target, origin=origin), driver)
