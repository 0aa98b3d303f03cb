"""Runs and measures a compiled call, and compiles variants of it for comparison."""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxlens import compat, progress
from jaxlens.errors import OptionError, UnavailableError, nearest
from jaxlens.ir.driver import Driver, Loop, Run
from jaxlens.ir.facts import Limits, Trial
from jaxlens.ir.jaxpr.bodies import bodies, opened
from jaxlens.questions.nan.measure import cures, nonfinite
from jaxlens.questions.numerics import measure as numerics
from jaxlens.questions.silent import measure as bounds
from jaxlens.questions.silent.index_outside import IndexOutside
from jaxlens.questions.times import measure as scan
from jaxlens.questions.values.measure import arrays, values
from jaxlens.questions.values.statistics import ExecutionArray, ValuesRun
from jaxlens.questions.variants.measure import reproducer
from jaxlens.questions.variants.measure.extract import ProgramCuts
from jaxlens.questions.variants.runs import ExtractedRun, ProgramRun, Reproducer
from jaxlens.stages.compile.program_text import compiled_text, execute_text, plain_array
from jaxlens.stages.measure.execute import check, check_local, run
from jaxlens.stages.measure.instruction_times import ONE_BY_ONE, launches_graphs, run_profiled
from jaxlens.stages.measure.measured_limits import measured
from jaxlens.stages.session.compiling import Compiling
from jaxlens.stages.session.tracing import TracedCall
from jaxlens.taps.equation_errors import NumericsRun
from jaxlens.taps.execute import CompiledPieces
from jaxlens.taps.executions import EquationValues, NonFiniteExecution, NonFiniteRun, Path

EDITABLE = ("stablehlo", "hlo", "optimized")


class Running(Driver):
    """The part of the live driver that executes programs; no other part of a capture does.

    Attributes:
        staging: The call's trace and lowering.
        compiling: The call's compiles.
    """

    def __init__(self, staging: TracedCall, compiling: Compiling) -> None:
        self.staging = staging
        self.compiling = compiling
        self._pieces = CompiledPieces()  # of runs that look for NaN

    def given(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the call's dynamic arguments.

        Raises:
            UnavailableError: An array has been freed.
        """
        return self.staging.given()

    @property
    def executable(self) -> Any:
        """The `jax.stages.Compiled`."""
        return self.compiling.compiled().executable

    def _check_refs(self, edited: bool = False) -> None:
        """Raises UnavailableError where a run would write a ref that the function closes over.

        Args:
            edited: Whether a text of the program is run, which has results for its refs.
        """
        if not self.staging.has("_trace"):
            return
        name, closed = self.staging.call.name, self.staging.traced.jaxpr
        if any(map(compat.is_ref, closed.consts)):
            raise UnavailableError(
                f"{name} closes over a ref, which a run would write: pass it as an argument, of "
                "which each run gets a copy"
            )
        if edited and any(map(compat.is_ref, closed.in_avals)):
            raise UnavailableError(
                f"{name} takes a ref, and a text has arrays: edit a function that takes the array "
                "and returns it"
            )

    def _check_effects(self, doing: str) -> None:
        """Raises UnavailableError for an `io_callback`, which acts each time that it is called.

        JAX itself may leave out or repeat the calls of other callbacks.
        """
        every = bodies(opened(self.staging.traced.jaxpr)).values()
        if any(eqn.primitive.name == "io_callback" for body in every for eqn in body.jaxpr.eqns):
            raise UnavailableError(
                f"{doing}, and its io_callback would act each time: look at the function without it"
            )

    def run(self, n: int) -> Run:
        """Executes the program `n` times and measures each run.

        Raises:
            OptionError: `n` is below 1, or an argument is a shape without data.
            UnavailableError: The program was compiled for a device that this process lacks, it
                closes over a ref, or the call's arrays have been freed.
        """
        # Read first: compiling drops the reference to arrays that only this call keeps alive.
        args, kwargs = self.given()
        executable = self.executable
        self._check_refs()
        return run(executable, args, n, kwargs, self._names())

    def run_watched(self, n: int) -> Run:
        """Runs under JAX's profiler, which slows it, and adds the seconds of each instruction.

        Raises:
            UnavailableError: As for `run`, or the profiler cannot start.
        """
        args, kwargs = self.given()
        module = self.compiling.compiled().optimized.module.name
        devices = self.staging.place.target.devices
        self._check_refs()

        def profiled(executable: Any) -> Run:
            execute = partial(run, executable, args, n, kwargs, self._names())
            return run_profiled(execute, module, devices)

        done = profiled(self.executable)
        if not launches_graphs(done):
            return done
        plain = run(self.executable, args, n, kwargs, self._names())
        alone = profiled(self.compiling.without_graphs().executable)
        how = f"{plain.how}; kernels under the profiler, {ONE_BY_ONE}"
        return replace(plain, instructions=alone.instructions, how=how)

    def nonfinite(self) -> NonFiniteRun:
        """Runs the program once with a measurement of each equation; donates nothing.

        Raises:
            OptionError: An argument is a shape without data.
            UnavailableError: The program is for a device that this process lacks, was traced by
                `jaxlens.core`, or its arrays have been freed.
        """
        with self._measuring("looks for NaN") as (closed, leaves):
            return nonfinite.run(closed, leaves, self._devices, self._pieces)

    def equation_values(self, path: Path, at: NonFiniteExecution) -> EquationValues:
        """Runs the program once with a measurement of one equation; raises as `nonfinite`."""
        with self._measuring("looks at what made it") as (closed, leaves):
            return nonfinite.equation_values(closed, leaves, path, at, self._pieces)

    def guarded(self, paths: Collection[Path]) -> tuple[NonFiniteRun, float]:
        """Runs the program twice, once with a change; raises as `nonfinite`."""
        with self._measuring("tries a cure") as (closed, leaves):
            return cures.guarded(closed, leaves, self._devices, paths, self._pieces)

    def widened(self) -> tuple[NonFiniteRun, float] | None:
        """Runs the program op by op in float64; raises as `nonfinite`."""
        with self._measuring("tries it in float64") as (closed, leaves):
            return cures.widened(closed, leaves)

    def numerics(self) -> NumericsRun:
        """Runs the program op by op, in float64 and compiled; raises as `nonfinite`."""
        with self._measuring("op by op, and in float64", "--numerics") as (closed, leaves):
            self._check_effects("--numerics runs the program in several ways")
            return numerics.run(closed, leaves)

    def bounds(self) -> tuple[IndexOutside, ...]:
        """Runs the program once with a measurement of each index; raises as `nonfinite`."""
        with self._measuring("looks at its indices", "--silent") as (closed, leaves):
            return bounds.run(closed, leaves)

    def values(self) -> ValuesRun:
        """Runs the program once with a measurement of each float; raises as `nonfinite`."""
        with self._measuring("measures its values", "--values") as (closed, leaves):
            return values.run(closed, leaves)

    def array_at(self, ident: str) -> ExecutionArray | None:
        """Runs the program once, and takes one array along; raises as `nonfinite`."""
        with self._measuring("takes an array along", "--values") as (closed, leaves):
            return arrays.array_at(closed, leaves, ident)

    @contextmanager
    def _measuring(self, doing: str, option: str = "--nan") -> Iterator[tuple[Any, list[Any]]]:
        """Yields the closed jaxpr and its flat arguments, under the settings of the call."""
        staging = self.staging
        if staging.by_core:
            raise UnavailableError(
                "a program of jaxlens.core is not measured as it runs: look at the function on jnp"
            )
        if staging.place.target.absent:
            raise UnavailableError(
                f"{staging.place.target.kind} is not here to run on: look without --target"
            )
        closed = staging.traced.jaxpr
        leaves = jax.tree.leaves(self.given())
        check(leaves, self._names(), option)
        cure = "look at a part of it with arrays that lie in this process"
        check_local([*leaves, *closed.consts], option, cure)
        with staging.as_called(), progress.step(f"jaxlens runs {staging.call.name}: {doing}"):
            yield closed, leaves

    def reproducer(self, path: str | os.PathLike[str], data: bool) -> Reproducer:
        """Writes a file that compiles and runs the program by itself; compiles nothing here.

        Raises:
            UnavailableError: The program is for several devices or an absent one, or calls Python.
            OptionError: The file cannot be written, or an argument has no data.
        """
        self.stage("stablehlo")  # raises if this program has none
        with self._taken("a reproducer") as lowered:
            place = self.staging.place.target
            text = reproducer.source(lowered, self.staging.call.name, place, data)
            arrays = reproducer.data(self._passed(lowered)) if data else None
            return reproducer.written(path, text, arrays)

    def editable(self, stage: str) -> str:
        """Returns a stage's text with constants in full and without your lines.

        Raises:
            OptionError: There is no such stage to change.
            UnavailableError: See `reproducer`.
        """
        if stage not in EDITABLE:
            raise OptionError(f"no text {stage!r} to change; {nearest(stage, EDITABLE)}")
        self.stage(stage)  # raises if this program does not have it
        with self._taken("an edited program") as lowered:
            if stage == "stablehlo":
                text = lowered.compiler_ir("stablehlo").operation.get_asm(enable_debug_info=False)
                return str(text)
            if stage == "hlo":
                return compat.editable_text(compat.hlo_computation(lowered).as_hlo_module())
            (module,) = self.executable.runtime_executable().hlo_modules()
            return compat.editable_text(module)

    def _extraction(self, name: str, n: int) -> ExtractedRun:
        """Runs one instruction of the optimised program alone, and the whole, `n` times each."""
        text = self.editable("optimized")
        with self._taken("a kernel by itself") as lowered:
            arguments = self._passed(lowered)
            options = compat.options_of(lowered) or ()
            cuts = ProgramCuts(text, partial(execute_text, options=options))
            with progress.step(f"jaxlens runs {self.staging.call.name} up to {name}"):
                cut = cuts.extract(name, arguments)
            compiled = compiled_text(cut.text, options)
            alone = run(compiled, tuple(cut.inputs), n)
        outputs = tuple(np.asarray(leaf) for leaf in jax.tree.leaves(alone.outputs))
        pairs = zip(outputs, cut.expected or (), strict=cut.expected is not None)
        equal = all(np.asarray(leaf).tobytes() == output.tobytes() for output, leaf in pairs)
        return ExtractedRun(
            name,
            cut.opcode,
            cut.text,
            cut.loop,
            cut.copied,
            tuple(cut.inputs),
            outputs,
            None if cut.expected is None else equal,
            alone.seconds,
            self.run(n).seconds,
            alone.how,
        )

    def flat_run(self, n: int) -> ProgramRun:
        """Executes the program `n` times; raises as `run`."""
        done = self.run(n)
        outputs = tuple(np.asarray(plain_array(leaf)) for leaf in jax.tree.leaves(done.outputs))
        return ProgramRun(done.seconds, outputs, done.how)

    @contextmanager
    def _taken(self, noun: str) -> Iterator[Any]:
        """Yields the lowered program, for one device of this process, under the call's settings.

        Args:
            noun: What is made of it, for the message.
        """
        target = self.staging.place.target
        if target.devices > 1:
            raise UnavailableError(
                f"{noun} is made of programs for one device, got one for {target.devices}; "
                "take the function without its mesh"
            )
        if target.absent:
            raise UnavailableError(
                f"{target.kind} is not here to run {noun}: look without --target"
            )
        lowered = self.staging.lowered
        operation = lowered.compiler_ir("stablehlo").operation
        if "callback" in operation.get_asm(large_elements_limit=16):
            raise UnavailableError(
                f"{noun} has no Python functions, and the program calls back into one; remove "
                "jax.debug.print and the callbacks"
            )
        with self.staging.as_called():
            yield lowered

    def _passed(self, lowered: Any) -> list[Any]:
        """Returns the arrays that the module of a lowered program is called with, in order."""
        self._check_refs()
        leaves = jax.tree.leaves(self.given())
        check(leaves, self._names(), "this")
        known = compat.kept_arguments(lowered)
        constants, kept = known if known is not None else ((), range(len(leaves)))
        return [*constants, *(plain_array(leaves[index]) for index in kept)]

    def module_arguments(self) -> list[np.ndarray]:
        """Returns the arrays that the program's module is called with; raises as `given`."""
        with self.staging.as_called():
            return [np.asarray(value) for value in self._passed(self.staging.lowered)]

    @property
    def _devices(self) -> int:
        return self.staging.place.target.devices

    def _names(self) -> list[str]:
        return [leaf.name for leaf in self.staging.call.inputs]

    def limits(self, dtypes: Iterable[str]) -> Limits:
        """Returns the peak rates of this capture's kind of device, measured once per process.

        Args:
            dtypes: Element types of the matrix products to measure.

        Raises:
            UnavailableError: This process has no such device.
        """
        target = self.staging.place.target
        if target.absent:
            raise UnavailableError(
                f"{target.kind} is not here to be measured: name it, as in --roofline h100"
            )
        return measured(target.platform, dtypes)

    def rolled(self, region: str, loops: Sequence[Loop], run: bool) -> Trial:
        """Compares the program with one whose unrolled loops are scans; both are compiled.

        Args:
            region: The name of the jaxpr body that contains the loops.
            loops: The loops in order, each as (first eqn, eqns per iteration, iterations).
            run: Execute both on random inputs, and compare the results.

        Raises:
            UnavailableError: jaxlens cannot rewrite a loop as a scan.
        """
        if self.staging.by_core:
            raise UnavailableError("programs of jaxlens.core are not tried: compile one by JAX")
        target = self.staging.place.target
        if target.absent or target.devices > 1 or target.platform != jax.default_backend():
            raise UnavailableError(
                "a trial is compiled for one device, where JAX runs by default; "
                "look at the call without --target"
            )
        if run:
            self._check_effects("both programs would run on random inputs")
        return scan.trial(self.staging.traced.jaxpr, region, loops, run)
