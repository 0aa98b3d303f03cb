"""The live driver: computes each stage and fact of a capture with JAX, on first use.

A capture traces, lowers and compiles at most once (`session/tracing.py`, `session/compiling.py`).
It compiles again only for pass dumps or a profile that an earlier compile did not record.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import jax

from jaxlens import compat
from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError, nearest
from jaxlens.ir.driver import REMAT, Attempt, Extra, Loop, Variant
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
from jaxlens.ir.graph import Module, Span
from jaxlens.ir.hlo.entry_inputs import entry_inputs
from jaxlens.ir.hlo.frames import origins
from jaxlens.ir.jaxpr.types import type_of
from jaxlens.ir.needs import Needs, Passes
from jaxlens.ir.spans import describe
from jaxlens.questions.memory.measure.checkpoint import WAYS, WITHOUT, Way, over_loops, traced
from jaxlens.questions.variants.measure import edited_text
from jaxlens.questions.variants.measure.edited_text import EditedText
from jaxlens.questions.variants.runs import ExtractedRun
from jaxlens.stages.call.abstract_call import shaped
from jaxlens.stages.call.call import Call
from jaxlens.stages.call.target import resolve
from jaxlens.stages.call.traceable import TraceableCall, prepare
from jaxlens.stages.call.transform_stack import rungs, traceable
from jaxlens.stages.child.first_in_child import tried, vouch
from jaxlens.stages.compile.program_text import mark_donated
from jaxlens.stages.compile.xla_options import FUSING, dumped_passes, xla_flags
from jaxlens.stages.session.compiling import Compiling
from jaxlens.stages.session.existing_trace import ExistingTrace
from jaxlens.stages.session.program_stages import hlo_stage, jaxpr_stage, stablehlo_stage
from jaxlens.stages.session.running import Running
from jaxlens.stages.session.tracing import TracedCall
from jaxlens.stages.trace import sources

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
    return Capture(*_prepared(prepare(f, args, dict(kwargs or {}), name), target, transforms))


def _prepared(call: TraceableCall, target: str | None, transforms: Sequence[str]) -> Variant:
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


def ladder_of(opened: Call, of: TraceableCall) -> tuple[Variant, ...]:
    """Returns a program per rung of a call's ladder of transforms, the plain function first.

    A rung whose outermost transform is jit is traced through a caller, so that its jaxpr shows
    the jit eqn.

    Args:
        opened: The call.
        of: The same, prepared: with its name, how often it was traced, and whether
            `jaxlens.core` traces it, which cannot be detected from shapes.
    """
    variants = []
    transforms: tuple[str, ...] = ()
    for rung in rungs(opened.function, opened.args, opened.kwargs):
        transforms = (rung.transform, *transforms) if rung.transform else transforms
        call = prepare(traceable(rung), rung.args, rung.kwargs, of.name, of.core is not None)
        call = replace(call, tracings=of.tracings)
        variants.append(_prepared(call, None, transforms))
    return tuple(variants)


class LiveDriver(Running):
    """Drives JAX for one call."""

    def __init__(self, staging: TracedCall, target: str = "") -> None:
        frames = origins(lambda: self.stage("stablehlo").module)
        super().__init__(staging, Compiling(staging, frames, self._forget_lowered))
        self.target = target
        self._stages: dict[str, Stage] = {}

    def stage(self, name: str) -> Stage:
        if name not in self._makers:
            raise UnavailableError(f"no stage {name!r}; {nearest(name, self._makers)}")
        with self.staging.lock:
            if name not in self._stages:
                self._stages[name] = self._makers[name]()
            return self._stages[name]

    def _forget_lowered(self, why: str) -> None:
        """Drops the cached StableHLO and HLO stages before a stand-in is compiled.

        Raises:
            UnavailableError: One of them has been parsed, and its content may be displayed.
        """
        lowered = [self._stages[name] for name in ("stablehlo", "hlo") if name in self._stages]
        if any("module" in vars(stage) for stage in lowered):
            raise UnavailableError(
                f"no program with the captured arrays compiled into it: {why}; a new capture that "
                "is asked for `optimized` first gives a stand-in's"
            )
        for stage in lowered:
            del self._stages[stage.info.name]

    @cached_property
    def _makers(self) -> dict[str, Callable[[], Stage]]:
        staging, compiling = self.staging, self.compiling

        return {
            "jaxpr": lambda: jaxpr_stage(staging),
            "stablehlo": lambda: stablehlo_stage(staging),
            "hlo": lambda: hlo_stage(staging, compiling.origins, compiling.converted),
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
            self.line_trace()
        if needs.verdict:
            self.verdict()
        if needs.compiled or needs.passes or needs.profile:
            self.compiling.begin(self._dumped(needs.passes), needs.profile)

    def _dumped(self, passes: Passes) -> bool | str:
        length = len(self.stage("stablehlo").text) if passes == "fusing" else 0
        return dumped_passes(passes, length)

    def meanwhile(self, work: Callable[[], object]) -> None:
        self.compiling.meanwhile(work)

    def finish(self) -> None:
        self.compiling.finish()

    def abandon(self) -> None:
        self.compiling.abandon()

    def recorded(self) -> frozenset[Extra]:
        compiled = self.compiling.recorded()
        return compiled | {"line_trace"} if self.staging.has_line_trace else compiled

    def fusing(self) -> tuple[PassStage, ...]:
        """Returns dumps of the fusion passes; for a small program, those of every pass."""
        if "passes" in self.recorded():
            return self.passes()
        return self.compiling.hlo(self._dumped("fusing")).passes

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
        # XLA writes it where it dumps the pass.
        is_gpu = self.staging.place.target.platform == "gpu"
        lacks = "fusion_log" not in self.recorded()
        return self.compiling.compiled(is_gpu and lacks and FUSING).fusion_log

    def memory(self) -> Memory:
        return self.compiling.compiled().memory

    def cost(self) -> Mapping[str, float]:
        return self.compiling.compiled().cost

    def profile(self) -> Profile:
        return self.compiling.profile()

    def times(self) -> tuple[Timing, ...]:
        return (*self.staging.times(), *self.compiling.times)

    def line_trace(self) -> LineTrace:
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

    def rungs(self) -> tuple[Variant, ...]:
        """Returns the ladder of transforms: the plain function, then one more transform each.

        Raises:
            UnavailableError: The function has no transform, or was made for a trial.
        """
        with self.staging.as_called():
            return ladder_of(self.staging.opened, self.staging.call)

    def checkpointed(self) -> Iterator[Attempt[Variant]]:
        """Yields each way to apply `jax.checkpoint`: in words, in Python, and a function.

        The function traces the call again with each differentiated function wrapped, and raises
        UnavailableError if that is impossible.
        """
        if self.staging.by_core:
            raise UnavailableError(
                "what jax.checkpoint would change is tried by JAX: a program of jaxlens.core is not"
            )
        with_checkpoint = any(n.opcode in REMAT for n in self.stage("jaxpr").module.nodes())
        for way in (WITHOUT, *WAYS) if with_checkpoint else WAYS:
            yield way.name, way.code, partial(self._under, way)

    def scan_checkpointed(self, loops: Callable[[Module], Sequence[Loop]]) -> Attempt[Variant]:
        """Returns the attempt to replace unrolled loops by scans with checkpointed bodies.

        Its function raises UnavailableError if that is impossible.

        Args:
            loops: Returns the loops of a jaxpr's entry, as `ir.driver.Loop`.
        """
        way = over_loops(loops)
        return "", way.code, partial(self._under, way)

    def under_policy(self, name: str, policy: Callable[..., Any]) -> Variant:
        """Returns the program with what it differentiates under `jax.checkpoint` with a policy.

        Args:
            name: The policy's name.
            policy: A policy, as `jax.checkpoint_policies` has them.

        Raises:
            UnavailableError: The call cannot be traced so.
        """
        wrap = partial(jax.checkpoint, policy=policy)
        return self._under(Way("the whole function", f"jax.checkpoint(f, policy={name})", wrap))

    def donating(self, names: Collection[str]) -> Variant:
        """Returns the program with more inputs donated, made of a copy of the lowered one.

        Args:
            names: The inputs' names.

        Raises:
            UnavailableError: The lowered program cannot be copied.
        """
        # The jits of libraries name the inputs of the lowered program in their own way.
        users = {leaf.path: leaf.name for leaf in self.staging.call.inputs if leaf.path}
        inputs = tuple(
            replace(leaf, name=users.get(leaf.name, leaf.name)) for leaf in self._entry_inputs()
        )
        lowered = compat.own_copy(self.staging.lowered)
        if lowered is None:
            raise UnavailableError("this version of JAX copies no lowered program")
        places = [n for n, leaf in enumerate(inputs) if leaf.name in names]
        mark_donated(lowered.compiler_ir("stablehlo"), places)
        name, target = self.staging.call.name, self.staging.place.target
        inputs = tuple(replace(leaf, donated=leaf.donated or leaf.name in names) for leaf in inputs)
        cure = f"look at the capture of {name}"
        staging = ExistingTrace(
            name, inputs, target, "a trial", cure, outputs=self.outputs, make=lambda: lowered
        )
        program = Program(name, inputs, (), target, origin="with donated inputs")
        return program, ExistingDriver(staging, {}, {"jaxpr": "jaxpr"})

    def editable(self, stage: str) -> str:
        return vouch(super().editable(stage))

    def edited(self, stage: str, text: str) -> Variant:
        """Returns the program of a changed text, with this one's arguments; compiles nothing.

        Args:
            stage: What the text is: "stablehlo", "hlo" or "optimized".
            text: The text.

        Raises:
            ReadError: The text cannot be parsed.
            OptionError: It takes other arguments.
            UnavailableError: See `reproducer`.
        """
        inputs = self._entry_inputs()
        self._check_refs(edited=True)
        with self._taken("an edited program") as lowered:
            options = compat.options_of(lowered) or ()
            outputs = self.outputs()
            tried(text, self.staging.place.target, options=options)
            sent = edited_text.parsed(stage, text, inputs, outputs, options)
        given = partial(self._passed, lowered)
        return self._of_text(f"edited {sent.language}", sent, inputs, given)

    def extracted(self, name: str, n: int) -> tuple[ExtractedRun, Variant]:
        """Runs one instruction of the optimised program alone, and the whole, `n` times each.

        Raises:
            OptionError: There is no such instruction, or an argument has no data.
            UnavailableError: See `reproducer`; or this jaxlib cannot compile it alone.
        """
        run = self._extraction(name, n)
        inputs = tuple(Input(f"input {i}", type_of(x)) for i, x in enumerate(run.inputs))
        outputs = tuple(Input(f"result[{i}]", type_of(x)) for i, x in enumerate(run.outputs))
        options = compat.options_of(self.staging.lowered) or ()
        sent = edited_text.parsed("optimized", run.text, inputs, outputs, options)
        return run, self._of_text(f"{name} by itself", sent, inputs, partial(list, run.inputs))

    def _entry_inputs(self) -> tuple[Input, ...]:
        """Returns the inputs that the lowered program has."""
        return entry_inputs(self.stage("stablehlo").module)

    def _of_text(
        self,
        holder: str,
        sent: EditedText,
        inputs: tuple[Input, ...],
        given: Callable[[], list[Any]],
    ) -> Variant:
        """Returns the program of a text, with the arguments to run it with."""
        name, target = self.staging.call.name, self.staging.place.target
        staging = ExistingTrace(
            name,
            inputs,
            target,
            holder,
            f"look at the capture of {name}",
            outputs=lambda: sent.outputs,
            make=lambda: sent.lowered,
            given=given,
        )
        driver = ExistingDriver(staging, {}, {"jaxpr": "jaxpr", **sent.missing})
        return Program(name, inputs, (), target, origin=holder), driver

    def _under(self, way: Way) -> Variant:
        call, place = shaped(self.staging.call), self.staging.place
        call = replace(call, opened=None, core=None)
        with self.staging.as_called():
            again = TracedCall.traced_before(call, place, traced(call, place, way))
        own = call.name, call.inputs, call.statics, place.target, call.span
        return Program(*own, unjitted=call.unjitted), LiveDriver(again)


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

    def editable(self, stage: str) -> str:
        return Running.editable(self, stage)  # a user may have written it

    def _entry_inputs(self) -> tuple[Input, ...]:
        return self.staging.call.inputs

    @cached_property
    def _sources(self) -> Mapping[str, Source]:
        first = next(
            n for n in ("jaxpr", "stablehlo", "hlo", "optimized") if n not in self._missing
        )
        return sources.sources(self.stage(first).module)

    def rungs(self) -> tuple[Variant, ...]:
        self.lacks("Python function, of whose transforms a ladder could be made")

    def checkpointed(self) -> Iterator[Attempt[Variant]]:
        yield self.lacks("Python function, which could be traced under jax.checkpoint")
