"""The trace or lowering of a program that exists without a call.

`ExistingTrace` has the interface of a call's `TracedCall`. Facts that need the call itself (its
cache verdict, line trace or arguments) raise UnavailableError.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, NoReturn

from jaxlens import compat
from jaxlens.call import isolate
from jaxlens.call.call import Call
from jaxlens.call.target import ResolvedTarget
from jaxlens.call.traceable import TraceableCall
from jaxlens.errors import UnavailableError
from jaxlens.ir.fact import no_call
from jaxlens.ir.facts import Constant, Input, LineTrace, Target, Timing
from jaxlens.stages.session.tracing import TracedCall
from jaxlens.stages.trace import captured_arrays, lower, stamp, trace


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
        given: Returns the arguments to run it with; None if there are none.
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
        given: Callable[[], list[Any]] | None = None,
    ) -> None:
        super().__init__(TraceableCall(name, _nothing, inputs=inputs), ResolvedTarget(target))
        self.holder = holder
        self.cure = cure
        self._make = make
        self._outputs = outputs
        self._given = given
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
        return lower.Lowering(compat.own_copy(lowered) or lowered, 0.0, ids)

    @property
    def is_whole(self) -> bool:
        """Always False: the types of the call are not known of every existing program."""
        return False

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
        """Returns the arguments of an edited program; others raise UnavailableError."""
        if self._given is None:
            self.lacks("arguments to run it with")
        return tuple(self._given()), {}

    @property
    def opened(self) -> Call:
        """Raises UnavailableError: there is no call."""
        self.lacks("Python function that could be traced")

    def line_trace(self) -> LineTrace:
        """Raises UnavailableError: nothing is traced."""
        self.lacks("Python function whose tracing could be followed")


def _nothing() -> None:
    """Placeholder for the missing function."""
