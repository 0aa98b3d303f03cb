"""Traces and lowers one call on first use, then drops its references to the user's arrays.

A capture may live long and must not keep the user's arrays alive. Facts that need the arrays
(constants, cache verdict, earlier trace) are computed right after lowering. From then on the call
has a `ShapeDtypeStruct` in place of each array, with which it can be traced again.
"""

import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

import jax

from jaxlens import compat, progress
from jaxlens.call import isolate
from jaxlens.call.abstract_call import WeakArguments, shaped, weakly_held
from jaxlens.call.arguments.in_place import Written
from jaxlens.call.call import Call
from jaxlens.call.core_program import written
from jaxlens.call.target import ResolvedTarget
from jaxlens.call.traceable import TraceableCall
from jaxlens.errors import UnavailableError
from jaxlens.ir.driver import when_it_fails
from jaxlens.ir.facts import Constant, Input, LineTrace, Timing, Verdict
from jaxlens.ir.jaxpr.types import type_of
from jaxlens.ir.stablehlo.stamps import Paths
from jaxlens.keys.earlier_trace import difference
from jaxlens.keys.jax_keys import verdict_of, verdict_of_core
from jaxlens.lines.record import Recorder
from jaxlens.stages.trace import captured_arrays, lower, stamp, trace

_EARLIER = (
    "{name} was traced before, and a call runs that program until jax.clear_caches(): "
    "{difference}. This is what the function makes now."
)


class TracedCall:
    """One trace and one lowering of a call.

    Attributes:
        call: The call; after lowering, with shapes in place of its arrays.
        place: The target.
        lock: Acquired around each step that must run only once.
        as_called: Returns a context manager that restores the JAX settings of the place where
            the capture was made, which may be inside `with jax.enable_x64(True):`.
        before_reading: Called before the lowered module is read, which XLA may be reading.
    """

    def __init__(self, call: TraceableCall, place: ResolvedTarget) -> None:
        self.call = call
        self.place = place
        self.lock = threading.RLock()
        self.as_called = compat.settings_here()
        self.before_reading: Callable[[], None] = lambda: None
        self._line_trace: LineTrace | None = None
        self._weak: WeakArguments | None = None

    @classmethod
    def traced_before(
        cls, call: TraceableCall, place: ResolvedTarget, done: trace.Trace
    ) -> "TracedCall":
        """Wraps the trace of a call that the user never made, such as that of a trial."""
        staging = cls(call, place)
        staging._trace = done
        # No cache verdict: it is about the user's own call, and this one has no arrays.
        staging.verdict = Verdict(None, reasons=("this call was never made",))
        return staging

    @property
    def traced(self) -> Any:
        """The `jax.stages.Traced`."""
        return self._trace.traced

    @cached_property
    def _trace(self) -> trace.Trace:
        return self._traced()

    def _traced(self, during: AbstractContextManager[None] | None = None) -> trace.Trace:
        """Traces the call; adds an explanation to an error and raises it unchanged."""
        try:
            with self.as_called(), progress.step(f"JAX traces {self.call.name}"):
                return trace.trace(self.call, self.place, during)
        except Exception as error:
            self._failed(error)
            raise

    def _failed(self, error: Exception) -> None:
        """Calls what explains a failure, then takes JAX's own frames out of its traceback."""
        isolate.retire()  # functions of the user's may have been traced on the way
        for explain in when_it_fails:
            explain(error, self.call, self.place)
        compat.hide_frames_of_jax(error)

    @property
    def program(self) -> Any:
        """The jaxpr, of JAX or of `jaxlens.core`."""
        return written(self.traced) or self.traced.jaxpr

    @property
    def by_core(self) -> bool:
        """Whether `jaxlens.core`, not JAX, traced the program."""
        return written(self.traced) is not None

    @property
    def lowered(self) -> Any:
        """The `jax.stages.Lowered`, with each op's stamp in its location."""
        self.before_reading()
        return self._stamped[0]

    @property
    def stamps(self) -> tuple[Paths, ...]:
        """The paths of equations that each op came from, computed on first use."""
        return self._stamped[1]

    @cached_property
    def _stamped(self) -> tuple[Any, tuple[Paths, ...]]:
        """The lowered object, after its ops are stamped in place, and the stamps."""
        lowered = self.lowering.lowered
        return lowered, stamp.ops(lowered, self.lowering.ids)

    @cached_property
    def lowering(self) -> lower.Lowering:
        """The lowering; its ops may not be stamped yet.

        Raises:
            UnavailableError: The function closes over too much to be compiled.
        """
        if self.captured_bytes >= captured_arrays.MOST:
            raise UnavailableError(captured_arrays.refusal(self.call.name, self.constants))
        with self.as_called(), progress.step(f"JAX lowers {self.call.name}"):
            done = self._lowered()
        # Cache the facts that need the arguments, then drop the strong references to the user's
        # arrays; weak ones remain.
        vars(self).update(constants=self.constants, verdict=self.verdict, earlier=self.earlier)
        self._weak = weakly_held(*self.call.dynamic())
        self.call = shaped(self.call)
        self._trace = replace(self._trace, survey=replace(self._trace.survey, captured=()))
        return done

    def _lowered(self) -> lower.Lowering:
        """Lowers the trace; adds an explanation to an error and raises it unchanged."""
        try:
            return lower.lower(self._trace, self.call, self.place)
        except Exception as error:
            self._failed(error)
            raise

    @cached_property
    def captured_bytes(self) -> int:
        """Size in bytes of the arrays that the function closes over."""
        return self._trace.survey.bytes

    @property
    def is_whole(self) -> bool:
        """Whether the lowered text with the call's types is all that is compiled."""
        return not self.captured_bytes

    def deviations(self) -> tuple[str, ...]:
        """Returns how the lowered program differs from the one that runs, in sentences."""
        sentences = []
        if isinstance(results := self._results, Written):
            sentences.append(results.deviation(self.call.name))
        if self.earlier:
            sentences.append(_EARLIER.format(name=self.call.name, difference=self.earlier))
        return tuple(sentences)

    def given(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the call's dynamic arguments.

        Raises:
            UnavailableError: An array has been freed.
        """
        return self._weak.get() if self._weak else self.call.dynamic()

    @property
    def opened(self) -> Call:
        """The call with its partials and bound methods unwrapped.

        Raises:
            UnavailableError: The program was made for a trial, so there is no such call.
        """
        self._check_called()
        return self.call.unwrapped

    def _check_called(self) -> None:
        """Raises UnavailableError for a trial's program, traced from a wrapper of jaxlens."""
        if self.call.core is None and self.call.opened is None:
            raise UnavailableError(
                "this program was traced for a trial only, from no call of its own: ask about the "
                "capture that the trial was made of"
            )

    def line_trace(self) -> LineTrace:
        """Returns the record of each executed line of the function; traces the call again.

        Raises:
            UnavailableError: The program was made for a trial.
        """
        with self.lock:
            if self._line_trace is None:
                self._check_called()
                if self.call.tracings:
                    isolate.retire()  # else JAX's cache would return the earlier trace
                recorder = Recorder()
                done = self._traced(recorder.recording())
                self.__dict__.setdefault("_trace", done)
                self._line_trace = recorder.line_trace(written(done.traced) or done.traced.jaxpr)
            return self._line_trace

    @property
    def has_line_trace(self) -> bool:
        """Whether the executed lines have been recorded."""
        return self._line_trace is not None

    def has(self, step: Literal["_trace", "lowering"]) -> bool:
        """Whether a step was done."""
        return step in self.__dict__

    def times(self) -> tuple[Timing, ...]:
        """Returns the seconds of the steps done so far."""
        done = []
        if self.has("_trace"):
            done.append(Timing("trace", self._trace.seconds))
        if self.has("lowering"):
            done.append(Timing("lower", self.lowering.seconds))
        return tuple(done)

    @cached_property
    def verdict(self) -> Verdict:
        """Whether this call would have hit JAX's caches."""
        opened = self.call.opened
        assert opened is not None  # dropped only after this is computed
        core = self.call.core
        with self.as_called():
            if core is not None:
                return verdict_of_core(core.function, self.call.name)
            return verdict_of(opened, self.call.name)

    @cached_property
    def earlier(self) -> str:
        """How the program in JAX's trace cache differs from this one; "" for no difference.

        On a hit the call runs the cached program. Reading it traces nothing and adds no entry.
        """
        inner = self.call.inner
        call = inner.call if inner and inner.known else self.call.opened
        if call is None or self.call.core or compat.jit_parts(call.function) is None:
            return ""
        if not (self.verdict.hit or self.verdict.layer == "compile"):
            return ""
        with self.as_called(), inner.within() if inner else nullcontext():
            jitted: Any = call.function
            before = jitted.trace(*call.args, **call.kwargs).jaxpr
        return difference(before, self.traced.jaxpr)

    @cached_property
    def constants(self) -> tuple[Constant, ...]:
        """The arrays that the function closes over."""
        return captured_arrays.constants(self._trace.survey, self.call.function, self.call.owner)

    @property
    def _results(self) -> Any:
        """The result pytree, with a number in place of each array."""
        return self.traced.out_tree.unflatten(range(len(self.traced.jaxpr.out_avals)))

    @cached_property
    def outputs(self) -> tuple[Input, ...]:
        """The results, named by their pytree paths."""
        avals = self.traced.jaxpr.out_avals
        names: Iterable[str]
        if self.call.inner is not None:
            names = self.call.inner.results(self.traced.out_tree, len(avals))
        # Not `out_info`: it makes an object per result, as many as a model has parameters.
        elif isinstance(results := self._results, Written):
            names = results.names()
        else:
            paths = jax.tree_util.tree_flatten_with_path(results)[0]
            names = (f"result{jax.tree_util.keystr(path)}" for path, _ in paths)
        return tuple(Input(n, type_of(aval)) for n, aval in zip(names, avals, strict=True))
