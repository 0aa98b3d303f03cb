"""The live driver: each fact of a capture, got from JAX when it is first asked for.

One look is at most one trace, one lowering and one compile. Asking for the passes after a
compile without them is the one case that compiles again.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import jax

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError, nearest
from jaxlens.ir import hlo, jaxpr, stablehlo
from jaxlens.ir.facts import (
    Constant,
    Input,
    Kernel,
    Memory,
    PassStage,
    Profile,
    Program,
    Source,
    Stage,
    Timing,
    Trial,
    Verdict,
)
from jaxlens.ir.graph import Module
from jaxlens.ir.hlo_frames import Origins, origins
from jaxlens.ir.jaxpr_types import type_of
from jaxlens.ir.limits import Limits
from jaxlens.ir.stablehlo_stamps import Paths
from jaxlens.ir.stage import BY_NAME
from jaxlens.ir.tape import Tape
from jaxlens.stages import (
    cache,
    constants,
    core_cache,
    flags,
    instruction_times,
    isolate,
    lower,
    rolled,
    sources,
    stamp,
    trace,
)
from jaxlens.stages.calls import Call, Opened, prepare
from jaxlens.stages.checkpointed import WAYS, Way, shaped
from jaxlens.stages.checkpointed import traced as traced_under
from jaxlens.stages.compile import FUSING, Compiled, compile_lowered
from jaxlens.stages.core_program import written
from jaxlens.stages.held import Held, hold
from jaxlens.stages.limits import measured
from jaxlens.stages.run import Run, run
from jaxlens.stages.rungs import rungs, traceable
from jaxlens.stages.tape import Recorder
from jaxlens.stages.target import Place, resolve

_SMALL = 60_000  # characters of StableHLO, up to which dumps of all passes cost next to nothing


def capture(
    f: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    target: str | None = None,
    name: str | None = None,
    transforms: Sequence[str] = (),
) -> Capture:
    """Prepares a look at a call. Nothing is traced yet, and the call is never run.

    Args:
        f: A function, jitted or not, a bound method, a partial, or a callable object.
        args: Positional arguments: arrays, `ShapeDtypeStruct`s, pytrees of them, statics.
        kwargs: Keyword arguments, likewise.
        target: "cpu", "gpu", "tpu", "tpu:v5e:2x2", "gpu:h100"; by default where JAX would run
            the call.
        name: What the user calls the function.
        transforms: What was put round it, outermost first; by default what can be seen.

    Raises:
        OptionError: `f` cannot be called.
        TargetError: There is no such target.
    """
    call = prepare(f, args, dict(kwargs or {}), name)
    place = resolve(target, call.leaves, call.settings)
    program = Program(
        call.name,
        call.inputs,
        call.statics,
        place.target,
        call.span,
        tuple(transforms) or call.transforms,
        flags.told(),
    )
    return Capture(program, LiveDriver(call, place, target or ""))


def ladder_of(opened: Opened, name: str) -> tuple[Capture, ...]:
    """A capture for each rung of a call; a jit is shown as the call of a jitted function."""
    found = []
    told: tuple[str, ...] = ()
    for rung in rungs(opened.function, opened.args, opened.kwargs):
        told = (rung.transform, *told) if rung.transform else told
        found.append(capture(traceable(rung), rung.args, rung.kwargs, name=name, transforms=told))
    return tuple(found)


class LiveDriver:
    """Drives JAX for one call. See `ir.facts.Driver` for what each method gives."""

    def __init__(self, call: Call, place: Place, target: str = "") -> None:
        self.target = target  # as it was written; "" for where JAX would run it
        self._call = call
        self._place = place
        self._stages: dict[str, Stage] = {}
        self._compiled: Compiled | None = None
        self._compiles: list[Timing] = []
        self._profile: Profile | None = None
        self._tape: Tape | None = None
        self._held: Held | None = None
        self._shaped: Call | None = None
        self._lock = threading.RLock()

    def stage(self, name: str) -> Stage:
        if name not in self._makers:
            raise UnavailableError(f"no stage {name!r}; {nearest(name, self._makers)}")
        with self._lock:
            if name not in self._stages:
                self._stages[name] = self._makers[name]()
            return self._stages[name]

    @cached_property
    def _makers(self) -> dict[str, Callable[[], Stage]]:
        return {
            "jaxpr": self._jaxpr_stage,
            "stablehlo": self._stablehlo_stage,
            "hlo": self._hlo_stage,
            "optimized": lambda: self._compile().optimized,
            "llvm": lambda: self._compile().llvm,
            "asm": lambda: self._compile().asm,
        }

    def _jaxpr_stage(self) -> Stage:
        program = written(self.traced) or self.traced.jaxpr
        return Stage(
            BY_NAME["jaxpr"],
            lambda: _printed(program),
            lambda: _read(program, self._call.name),
        )

    def _stablehlo_stage(self) -> Stage:
        lowered = self._lowering.lowered
        return Stage(
            BY_NAME["stablehlo"],
            lambda: lower.stablehlo_text(lowered),
            lambda: stablehlo.read(lowered.compiler_ir("stablehlo"), self._stamps),
        )

    @cached_property
    def _origins(self) -> Origins:
        return origins(lambda: self.stage("stablehlo").module)

    def _hlo_stage(self) -> Stage:
        lowered = self.lowered

        def converted() -> str:
            """What the compile made of StableHLO: to make it again takes as long as a pass."""
            return self._compiled.lowered_text if self._compiled else ""

        stage = Stage(
            BY_NAME["hlo"],
            lambda: lower.hlo_text(lowered),
            lambda: hlo.read(converted() or stage.raw, stage="hlo", origins=self._origins),
        )
        return stage

    @property
    def traced(self) -> Any:
        """JAX's own traced object."""
        return self._trace.traced

    @property
    def lowered(self) -> Any:
        """JAX's own lowered object, each op's location with a stamp of its own."""
        self._stamps  # noqa: B018 - puts them there
        return self._lowering.lowered

    @cached_property
    def _stamps(self) -> tuple[Paths, ...]:
        """The equations that each op came from; worked out no earlier than something needs it."""
        return stamp.ops(self._lowering.lowered, self._lowering.ids)

    @cached_property
    def _trace(self) -> trace.Trace:
        return trace.trace(self._call, self._place)

    @cached_property
    def _lowering(self) -> lower.Lowering:
        done = lower.lower(self._trace, self._call, self._place)
        self.constants()
        self._verdict  # noqa: B018 - the last thing that needs the arguments
        self._release()
        return done

    def _release(self) -> None:
        """Lets go of the user's arrays: a capture may be kept for long."""
        self._held = hold(*self._call.dynamic())
        self._shaped = shaped(self._call)
        self._call = replace(self._call, args=(), kwargs={}, leaves=(), owner=None)
        self._call = replace(self._call, opened=None, core=None)
        self._trace = replace(self._trace, survey=replace(self._trace.survey, captured=()))

    def _compile(self, passes: bool | str = False) -> Compiled:
        """The compiled program; made once, and once more if passes are wanted and missing."""
        with self._lock:
            compiled = self._compiled
            if compiled is not None and compiled.gives(passes):
                return compiled
            done = self._compile_now(passes=passes)
            self._compiles += [_again(t, "passes") if compiled else t for t in done.times]
            self._compiled = done
            return done

    def _compile_now(self, **asked: Any) -> Compiled:
        return compile_lowered(self.lowered, name=self._call.name, origins=self._origins, **asked)

    def profile(self) -> Profile:
        with self._lock:
            if self._profile is None:
                done = self._compile_now(profiled=True)
                again = self._compiled is not None
                self._compiles += [_again(t, "profile") if again else t for t in done.times]
                self._compiled = self._compiled or done
                assert done.profile is not None  # asked for
                self._profile = done.profile
            return self._profile

    @property
    def has_profile(self) -> bool:
        """Whether a compile was profiled already."""
        return self._profile is not None

    @property
    def executable(self) -> Any:
        """JAX's own compiled object."""
        return self._compile().executable

    def run(self, n: int) -> Run:
        """Executes the program `n` times and measures it; the only thing here that runs it.

        Raises:
            OptionError: `n` is below 1, or an argument is a shape without data.
            UnavailableError: The program was compiled for a device that is not here, or the
                call's arrays are gone.
        """
        # Taken first: compiling lets go of arrays that only this call keeps.
        args, kwargs = self.given()
        return run(self.executable, args, n, kwargs, [leaf.name for leaf in self._call.inputs])

    def given(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call's arguments without static ones.

        Raises:
            UnavailableError: An array is gone.
        """
        return self._held.get() if self._held else self._call.dynamic()

    def run_watched(self, n: int) -> Run:
        """`run` with the seconds of each instruction, from the profiler, which slows it.

        Raises:
            UnavailableError: As `run`, or the profiler is not to be had.
        """
        args, kwargs = self._held.get() if self._held else self._call.dynamic()
        watch = instruction_times.Watch(self.stage("optimized").module.name)
        names = [leaf.name for leaf in self._call.inputs]
        done = run(self.executable, args, n, kwargs, names, watch.running())
        times = n * self._place.target.devices  # every device runs it
        each = {name: seconds / times for name, seconds in watch.seconds.items()}
        return replace(done, instructions=each, how=f"{done.how}, under the profiler")

    def limits(self, dtypes: Sequence[str]) -> Limits:
        """What a device of this capture's kind does at most, measured once per process.

        Args:
            dtypes: Element types of the products that matter.

        Raises:
            UnavailableError: The device is not in this process.
        """
        if self._place.target.absent:
            raise UnavailableError(
                f"{self._place.target.kind} is not here to be measured: name it, as in --roofline "
                "h100"
            )
        return measured(self._place.target.platform, dtypes)

    def passes(self) -> tuple[PassStage, ...]:
        return self._passes

    @cached_property
    def _passes(self) -> tuple[PassStage, ...]:
        return self._compile(passes=True).passes

    @property
    def has_all_passes(self) -> bool:
        """Whether the compile that was made dumped every pass."""
        return self._compiled is not None and self._compiled.passes_asked is True

    def fusing(self) -> tuple[PassStage, ...]:
        """Dumps of the passes that fuse; of a small program those of every pass."""
        if self.has_all_passes or len(self.stage("stablehlo").text) <= _SMALL:
            return self._passes
        return self._compile(passes=FUSING).passes

    def rolled(self, region: str, loops: Sequence[rolled.Span], run: bool) -> Trial:
        """What scans in the place of unrolled loops would change; both programs are compiled.

        Args:
            region: The body of the jaxpr that the loops stand in.
            loops: First equation, equations of a repetition and repetitions of each, in order.
            run: Execute both on random inputs, and compare.

        Raises:
            UnavailableError: A loop cannot be written as a scan by us.
        """
        if written(self.traced) is not None:
            raise UnavailableError("programs of jaxlens.core are not tried: compile one by JAX")
        target = self._place.target
        if target.absent or target.devices > 1 or target.platform != jax.default_backend():
            raise UnavailableError(
                "a trial is compiled for one device, where JAX runs by default; "
                "look at the call without --target"
            )
        return rolled.trial(self.traced.jaxpr, region, loops, run)

    def checkpointed(self) -> Iterator[tuple[str, str, Callable[[], Capture]]]:
        """The ways of `jax.checkpoint`, in words and in Python, and what tries each.

        What tries one traces the call anew with all that it differentiates wrapped, and raises
        UnavailableError where that cannot be done.
        """
        if written(self.traced) is not None:
            raise UnavailableError(
                "what jax.checkpoint would change is tried by JAX: a program of jaxlens.core is not"
            )
        for way in WAYS:
            yield way.name, way.code, partial(self._under, way)

    def _under(self, way: Way) -> Capture:
        call = self._shaped or shaped(self._call)
        again = LiveDriver(call, self._place)
        # The verdict is no question about the user's call, whose arrays are gone.
        again.__dict__["_trace"] = traced_under(call, self._place, way)
        again.__dict__["_verdict"] = Verdict(None, reasons=("this call was never made",))
        target = self._place.target
        return Capture(Program(call.name, call.inputs, call.statics, target, call.span), again)

    def kernels(self) -> tuple[Kernel, ...]:
        return tuple(self._compile().kernels)

    def buffers(self) -> str:
        return str(self._compile().buffers)

    def fusion_log(self) -> str:
        return str(self._compile().fusion_log)

    @property
    def has_fusion_log(self) -> bool:
        """Whether the compile that was made wrote one."""
        return self._compiled is not None and bool(self._compiled.dump.fusion_log)

    def memory(self) -> Memory:
        found: Memory = self._compile().memory
        return found

    def cost(self) -> Mapping[str, float]:
        found: Mapping[str, float] = self._compile().cost
        return found

    def times(self) -> tuple[Timing, ...]:
        done = []
        if "_trace" in self.__dict__:
            done.append(Timing("trace", self._trace.seconds))
        if "_lowering" in self.__dict__:
            done.append(Timing("lower", self._lowering.seconds, self._lowering.note))
        return (*done, *self._compiles)

    def verdict(self) -> Verdict:
        return self._verdict

    @cached_property
    def _verdict(self) -> Verdict:
        opened = self._call.opened
        assert opened is not None  # released only after this was answered
        core = self._call.core
        if core is not None:
            return core_cache.verdict(core.function, core.args, core.kwargs, self._call.name)
        return cache.verdict(opened, self._call.name)

    def tape(self) -> Tape:
        """What the function's lines did while it was traced; a trace made before is made again.

        Raises:
            UnavailableError: The call was let go of before it was asked for.
        """
        with self._lock:
            if self._tape is None:
                if self._call.opened is None:
                    raise UnavailableError(
                        "the call of this capture was let go of when it was lowered: ask for its "
                        "tape first, or of a new capture"
                    )
                isolate.retire()  # else JAX would serve a trace that was made before
                recorder = Recorder()
                done = trace.trace(self._call, self._place, recorder.recording())
                self.__dict__.setdefault("_trace", done)
                self._tape = recorder.tape(written(done.traced) or done.traced.jaxpr)
            return self._tape

    @property
    def has_tape(self) -> bool:
        """Whether a trace was recorded already."""
        return self._tape is not None

    def rungs(self) -> tuple[Capture, ...]:
        """The same function with ever more of its transforms, itself first; for the ladder.

        Raises:
            UnavailableError: It has no transform, or the call was let go of.
        """
        opened = self._call.core or self._call.opened
        if opened is None:
            raise UnavailableError(
                "the call of this capture was let go of when it was lowered: ask for the ladder "
                "first, or of a new capture"
            )
        return ladder_of(opened, self._call.name)

    def outputs(self) -> tuple[Input, ...]:
        return self._outputs

    @cached_property
    def _outputs(self) -> tuple[Input, ...]:
        avals = self.traced.jaxpr.out_avals
        # Not `out_info`: it makes an object for each result, a whole model's parameters.
        results = self.traced.out_tree.unflatten(range(len(avals)))
        paths = jax.tree_util.tree_flatten_with_path(results)[0]
        return tuple(
            Input("result" + jax.tree_util.keystr(path), type_of(aval))
            for (path, _), aval in zip(paths, avals, strict=True)
        )

    def constants(self) -> tuple[Constant, ...]:
        return self._constants

    @cached_property
    def _constants(self) -> tuple[Constant, ...]:
        return constants.constants(self._trace.survey, self._call.function, self._call.owner)

    def sources(self) -> Mapping[str, Source]:
        return self._sources

    @cached_property
    def _sources(self) -> Mapping[str, Source]:
        return sources.sources(self.stage("jaxpr").module, self._call.span)


def _read(program: Any, name: str) -> Module:
    with stamp.none():
        return jaxpr.read(program, name, scope=_scope)


def _scope(stack: Any) -> str:
    """A name stack's text; the core's is a tuple of names."""
    return "/".join(stack) if isinstance(stack, tuple) else str(stack)


def _printed(program: Any) -> str:
    with isolate.deeper(), stamp.none():
        if not hasattr(program, "pretty_print"):  # the core's
            return str(program)
        return str(program.pretty_print(use_color=False))


def _again(timing: Timing, what: str) -> Timing:
    """Says that a step was done twice, because something was asked for late."""
    words = f"a second time, for the {what}"
    return replace(timing, note=f"{timing.note}; {words}" if timing.note else words)
