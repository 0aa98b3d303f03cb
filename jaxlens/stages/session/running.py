"""Runs and measures a compiled call, and compiles variants of it for comparison."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import jax

from jaxlens import compat, progress
from jaxlens.errors import UnavailableError
from jaxlens.ir.driver import RUNNING, Driver, Run
from jaxlens.ir.facts import Limits
from jaxlens.ir.jaxpr.bodies import bodies, opened
from jaxlens.report import count
from jaxlens.stages.compile.program_text import plain_array
from jaxlens.stages.measure.execute import check, check_local, run
from jaxlens.stages.measure.instruction_times import ONE_BY_ONE, launches_graphs, run_profiled
from jaxlens.stages.measure.measured_limits import measured
from jaxlens.stages.session.compiling import Compiling
from jaxlens.stages.session.tracing import TracedCall


class Running(Driver):
    """The part of the live driver that executes programs; no other part of a capture does.

    Attributes:
        staging: The call's trace and lowering.
        compiling: The call's compiles.
        kept: What a question keeps from one of its runs to the next, by its name.
    """

    def __init__(self, staging: TracedCall, compiling: Compiling) -> None:
        self.staging = staging
        self.compiling = compiling
        self.kept: dict[str, Any] = {}

    def given(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the call's dynamic arguments.

        Raises:
            UnavailableError: An array has been freed.
        """
        return self.staging.given()

    def live(self, noun: str = RUNNING, traces: bool = False) -> Any:
        """Returns itself."""
        return self

    @property
    def executable(self) -> Any:
        """The `jax.stages.Compiled`."""
        return self.compiling.compiled().executable

    def check_refs(self, edited: bool = False) -> None:
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

    def check_effects(self, doing: str) -> None:
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
        self.check_refs()
        return run(executable, args, n, kwargs, self.names())

    def run_watched(self, n: int) -> Run:
        """Runs under JAX's profiler, which slows it, and adds the seconds of each instruction.

        Raises:
            UnavailableError: As for `run`, or the profiler cannot start.
        """
        args, kwargs = self.given()
        module = self.compiling.compiled().optimized.module.name
        devices = self.staging.place.target.devices
        self.check_refs()

        def profiled(executable: Any) -> Run:
            execute = partial(run, executable, args, n, kwargs, self.names())
            return run_profiled(execute, module, devices)

        done = profiled(self.executable)
        if not launches_graphs(done):
            return done
        plain = run(self.executable, args, n, kwargs, self.names())
        alone = profiled(self.compiling.without_graphs().executable)
        how = f"{plain.how}; kernels under the profiler, {ONE_BY_ONE}"
        return replace(plain, instructions=alone.instructions, how=how)

    @contextmanager
    def measuring(self, doing: str, option: str = "--nan") -> Iterator[tuple[Any, list[Any]]]:
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
        check(leaves, self.names(), option)
        check_local([*leaves, *closed.consts], option)
        equations = sum(len(body.ids) for body in bodies(opened(closed)).values())
        ran = f"jaxlens runs {staging.call.name}, {count(equations, 'equation')}"
        with staging.as_called(), progress.step(f"{ran}: {doing}"):
            yield closed, leaves

    @contextmanager
    def taken(self, noun: str) -> Iterator[Any]:
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

    def passed(self, lowered: Any) -> list[Any]:
        """Returns the arrays that the module of a lowered program is called with, in order."""
        self.check_refs()
        leaves = jax.tree.leaves(self.given())
        check(leaves, self.names(), "this")
        known = compat.kept_arguments(lowered)
        constants, kept = known if known is not None else ((), range(len(leaves)))
        return [*constants, *(plain_array(leaves[index]) for index in kept)]

    @property
    def devices(self) -> int:
        return self.staging.place.target.devices

    def names(self) -> list[str]:
        return [leaf.name for leaf in self.staging.call.inputs]

    def limits(self, dtypes: Iterable[str]) -> Limits:
        """Returns the peak rates of this capture's kind of device, measured once per process.

        Args:
            dtypes: Element types of the matrix products to measure.

        Raises:
            UnavailableError: This process has no such device.
        """
        return measured(self.staging.place.target.platform, dtypes)
