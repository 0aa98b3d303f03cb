"""The live driver: computes each stage and fact of a capture with JAX, on first use.

A capture traces, lowers and compiles at most once (`session/tracing.py`, `session/compiling.py`).
It compiles again only for a profile that an earlier compile did not record, and runs XLA's passes
again, on a CPU without machine code, for dumps of all of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import jax

from jaxlens.call import isolate
from jaxlens.call.abstract_call import shaped
from jaxlens.call.target import ResolvedTarget, resolve
from jaxlens.call.traceable import TraceableCall, prepare
from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError, nearest
from jaxlens.ir.driver import RUNNING, Extra, Variant
from jaxlens.ir.facts import (
    Constant,
    Input,
    Kernel,
    LineTrace,
    Memory,
    PassStage,
    Profile,
    Program,
    Source,
    Stage,
    Timing,
    Verdict,
)
from jaxlens.ir.graph import Span
from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.hlo.entry_inputs import entry_inputs
from jaxlens.ir.hlo.frames import Origins, origins
from jaxlens.ir.needs import Needs
from jaxlens.ir.spans import describe
from jaxlens.ir.stablehlo import reader as stablehlo
from jaxlens.ir.stage import BY_NAME
from jaxlens.stages.compile.xla_options import xla_flags
from jaxlens.stages.session.compiling import Compiling
from jaxlens.stages.session.existing_trace import ExistingTrace
from jaxlens.stages.session.running import Running
from jaxlens.stages.session.tracing import TracedCall
from jaxlens.stages.trace import lower, sources
from jaxlens.stages.trace.jaxpr_stage import stage_of_jaxpr
from jaxlens.stages.trace.trace import Trace

_NO_JIT = (
    "jax_disable_jit is on here, so the call runs op by op: this is the one program that jit makes "
    "of it where that is off, and all figures are that program's."
)


def capture(
    f: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    target: str | None = None,
    name: str | None = None,
    transforms: Sequence[str] = (),
) -> Capture:
    """Returns a capture of a call. Nothing is traced yet, and the call is never run.

    Args:
        f: A function, jitted or not, a bound method, a partial, or a callable object.
        args: Positional arguments: arrays, `ShapeDtypeStruct`s, pytrees of them, static values.
        kwargs: Keyword arguments, likewise.
        target: "cpu", "gpu", "tpu", "tpu:v5e:2x2", "gpu:h100"; by default where JAX would run
            the call.
        name: The function's name in the user's source.
        transforms: The transforms applied to it, outermost first; by default those that its
            wrappers show.

    Raises:
        OptionError: `f` cannot be called.
        TargetError: There is no such target.
    """
    return Capture(*prepared(prepare(f, args, dict(kwargs or {}), name), target, transforms))


def prepared(call: TraceableCall, target: str | None, transforms: Sequence[str]) -> Variant:
    """Returns the program and the driver of a prepared call."""
    staging = TracedCall(call, resolve(target, call.leaves, call.settings))
    if staging.place.target.devices == 1 < jax.device_count():
        staging.place = staging.place.meshed(lambda: staging.traced)
    settings: Any = jax.config
    program = Program(
        call.name,
        call.inputs,
        call.statics,
        staging.place.target,
        call.span,
        tuple(transforms) or call.transforms,
        xla_flags(),
        call.unjitted,
        (_NO_JIT,) if settings.jax_disable_jit else (),
        jit=call.inner.jit if call.inner is not None else _jit_of(call.span),
        engine=call.engine,
    )
    return program, LiveDriver(staging, target or "")


def _jit_of(span: Span | None) -> str:
    """Returns what jits a function, or would: "" for JAX's own, where the user can say nothing."""
    return "" if span is not None and describe(span.key).own else "jax.jit"


def stablehlo_stage(staging: TracedCall) -> Stage:
    """Returns the StableHLO stage."""
    _ = staging.lowering  # its errors are raised here

    def lowered() -> Any:
        staging.before_reading()
        return staging.lowering.lowered

    return Stage(
        BY_NAME["stablehlo"],
        lambda: lower.stablehlo_text(lowered()),
        lambda: stablehlo.read(lowered().compiler_ir("stablehlo"), staging.stamps),
    )


def hlo_stage(staging: TracedCall, origins: Origins) -> Stage:
    """Returns the stage of HLO before optimisation.

    Args:
        staging: The lowered call.
        origins: Returns the stack frames of a StableHLO op.
    """
    _ = staging.lowered  # its errors are raised here
    stage = Stage(
        BY_NAME["hlo"],
        lambda: lower.hlo_text(staging.lowered),
        lambda: hlo.read(stage.raw, stage="hlo", origins=origins),
    )
    return stage


class LiveDriver(Running):
    """Drives JAX for one call.

    Attributes:
        own_text: Whether all its texts were made by this process, none by a user.
    """

    own_text = True

    def __init__(self, staging: TracedCall, target: str = "") -> None:
        frames = origins(lambda: self.stage("stablehlo").module)
        super().__init__(staging, Compiling(staging, frames))
        self.target = target
        self._stages: dict[str, Stage] = {}

    def stage(self, name: str) -> Stage:
        if name not in self._makers:
            raise UnavailableError(f"no stage {name!r}; {nearest(name, self._makers)}")
        with self.staging.lock:
            if name not in self._stages:
                self._stages[name] = self._makers[name]()
            return self._stages[name]

    @cached_property
    def _makers(self) -> dict[str, Callable[[], Stage]]:
        staging, compiling = self.staging, self.compiling

        return {
            "jaxpr": lambda: stage_of_jaxpr(staging.program, staging.call.name),
            "stablehlo": lambda: stablehlo_stage(staging),
            "hlo": lambda: hlo_stage(staging, compiling.origins),
            "optimized": lambda: compiling.hlo().optimized,
            "llvm": lambda: compiling.compiled().llvm,
            "asm": lambda: compiling.compiled().asm,
        }

    @property
    def traced(self) -> Any:
        """The `jax.stages.Traced`."""
        return self.staging.traced

    @property
    def lowered(self) -> Any:
        """The `jax.stages.Lowered`, with each op's stamp in its location."""
        return self.staging.lowered

    def passes(self) -> tuple[PassStage, ...]:
        return self.compiling.hlo(passes=True).passes

    def gather(self, needs: Needs) -> None:
        if needs.line_trace:
            self.tape()
        if needs.verdict:
            self.verdict()
        if needs.compiled or needs.passes or needs.profile:
            self.compiling.begin(needs.passes, needs.profile)

    def finish(self) -> None:
        self.compiling.finish()

    def abandon(self) -> None:
        self.compiling.abandon()

    def recorded(self) -> frozenset[Extra]:
        compiled = self.compiling.recorded()
        return compiled | {"tape"} if self.staging.has_line_trace else compiled

    def fusing(self) -> tuple[PassStage, ...]:
        """Returns dumps of the fusion passes at least; for a small program, those of every pass."""
        return self.compiling.hlo().passes

    def waits_for(self, name: str) -> str | None:
        if name in self._stages:
            return ""
        if name == "jaxpr":
            return "" if self.staging.has("_trace") else "a trace"
        if name in ("stablehlo", "hlo"):
            return "" if self.staging.has("lowering") else "lowering"
        if not self.compiling.begun:
            return "a compile"
        return "another compile" if name == "passes" and "passes" not in self.recorded() else ""

    def kernels(self) -> tuple[Kernel, ...]:
        return self.compiling.compiled().kernels

    def buffers(self) -> str:
        return self.compiling.hlo().buffers

    def fusion_log(self) -> str:
        return self.compiling.compiled().fusion_log

    def memory(self) -> Memory:
        return self.compiling.compiled().memory

    def cost(self) -> Mapping[str, float]:
        return self.compiling.compiled().cost

    def profile(self) -> Profile:
        return self.compiling.profile()

    def times(self) -> tuple[Timing, ...]:
        return (*self.staging.times(), *self.compiling.times)

    def tape(self) -> LineTrace:
        return self.staging.line_trace()

    def verdict(self) -> Verdict:
        return self.staging.verdict

    def tracings(self) -> int:
        return len(self.staging.call.tracings)

    def deviations(self) -> tuple[str, ...]:
        return self.staging.deviations()

    def outputs(self) -> tuple[Input, ...]:
        return self.staging.outputs

    def constants(self) -> tuple[Constant, ...]:
        return self.staging.constants

    def sources(self) -> Mapping[str, Source]:
        return self._sources

    @cached_property
    def _sources(self) -> Mapping[str, Source]:
        return sources.sources(self.stage("jaxpr").module, self.staging.call.span)

    def retraced(self, trace: Callable[[TraceableCall, ResolvedTarget], Trace]) -> Variant:
        """Returns the program of the call as another function traces it.

        Args:
            trace: Traces the call, of which it gets the shapes, for a target.
        """
        call, place = shaped(self.staging.call), self.staging.place
        call = replace(call, opened=None, core=None)
        isolate.retire()  # so that JAX does not reuse an earlier trace
        try:
            with self.staging.as_called():
                again = TracedCall.traced_before(call, place, trace(call, place))
        finally:
            isolate.retire()
        own = call.name, call.inputs, call.statics, place.target, call.span
        return Program(*own, unjitted=call.unjitted), LiveDriver(again)

    def entry_inputs(self) -> tuple[Input, ...]:
        """Returns the inputs that the lowered program has."""
        return entry_inputs(self.stage("stablehlo").module)


class ExistingDriver(LiveDriver):
    """Makes the later stages of an existing program; raises for facts that need a call.

    Args:
        staging: The existing trace or lowering.
        stages: Stages that exist as text, used instead of making them.
        missing: Names of the earlier stages that do not exist, with their noun for the message.
    """

    own_text = False

    def __init__(
        self, staging: ExistingTrace, stages: Mapping[str, Stage], missing: Mapping[str, str]
    ) -> None:
        super().__init__(staging)
        if "stablehlo" in missing:  # converted to compile it; its ops are not shown
            frames = origins(lambda: stablehlo_stage(staging).module)
            self.compiling = Compiling(staging, frames)
        self.holder, self.cure = staging.holder, staging.cure
        self._stages.update(stages)
        self._missing = missing

    def stage(self, name: str) -> Stage:
        if name in self._missing:
            self.lacks(self._missing[name])
        return super().stage(name)

    def waits_for(self, name: str) -> str | None:
        return None if name in self._missing else super().waits_for(name)

    def live(self, noun: str = RUNNING, traces: bool = False) -> Any:
        return self.lacks(noun) if traces else self

    def entry_inputs(self) -> tuple[Input, ...]:
        return self.staging.call.inputs

    @cached_property
    def _sources(self) -> Mapping[str, Source]:
        return sources.earliest_sources(self)
