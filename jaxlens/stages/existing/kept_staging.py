"""An existing trace or lowering, with the interface of the `TracedCall` of a call.

Facts that need the call itself (its cache verdict, line trace or arguments) raise UnavailableError.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, NoReturn

from jaxlens.errors import UnavailableError
from jaxlens.ir.driver import no_call
from jaxlens.ir.facts import Constant, Input, Timing
from jaxlens.ir.line_trace import LineTrace
from jaxlens.stages import compat
from jaxlens.stages.arguments import captured_arrays
from jaxlens.stages.call import isolate
from jaxlens.stages.call.call import Call
from jaxlens.stages.call.target import ResolvedTarget
from jaxlens.stages.call.traceable import TraceableCall
from jaxlens.stages.session.tracing import TracedCall
from jaxlens.stages.trace import lower, stamp, trace


class ExistingTrace(TracedCall):
    """The existing trace or lowering of a program; makes the lowering if it is missing.

    Args:
        call: The call, with a name and inputs only.
        place: The target device.
        holder: What the program was read from, as a noun with its article: "a jax.stages.Lowered".
        cure: How to get missing facts, as the end of an error message.
        traced: The `jax.stages.Traced`; None if there is none.
        make: Returns the existing lowered object; None if `traced` is to be lowered.
        names: Returns the outputs; None if their names are unknown.
    """

    def __init__(
        self,
        call: TraceableCall,
        place: ResolvedTarget,
        holder: str,
        cure: str,
        *,
        traced: Any = None,
        make: Callable[[], Any] | None = None,
        names: Callable[[], tuple[Input, ...]] | None = None,
    ) -> None:
        super().__init__(call, place)
        self.holder = holder
        self.cure = cure
        self._make = make
        self._names = names
        if traced is not None:
            survey = captured_arrays.survey(traced.jaxpr)
            self.__dict__["_trace"] = trace.Trace(traced, survey, 0.0, isolate.context())
        self.verdict = no_call(holder)

    def lacks(self, what: str) -> NoReturn:
        """Raises UnavailableError, with the advice on how to get the missing fact."""
        raise UnavailableError(f"{self.holder} holds no {what}; {self.cure}")

    @property
    def _kept_trace(self) -> trace.Trace:
        found = self.__dict__.get("_trace")
        if found is None:
            self.lacks("jaxpr")
        assert isinstance(found, trace.Trace)
        return found

    @property
    def traced(self) -> Any:
        """The `jax.stages.Traced`."""
        return self._kept_trace.traced

    @cached_property
    def lowering(self) -> lower.Lowering:
        """The existing lowering, or a new one of the existing trace."""
        if self._make is not None:
            return lower.Lowering(self._make(), 0.0)
        done = self._kept_trace
        with isolate.untouched(done.context):
            lowered, ids = stamp.lowered(done.traced, lambda t: t.lower())
        # JAX caches one module per trace; the stamps go into a copy of it.
        return lower.Lowering(compat.own_copy(lowered) or lowered, 0.0, "", ids)

    @property
    def stand_in(self) -> str:
        """Always "": the existing program is compiled, however large its constants are."""
        return ""

    def waiting(self) -> Callable[[float], None] | None:
        """Always None, no limit: a stand-in can be made of a call only."""
        return None

    def deviations(self) -> tuple[str, ...]:
        """Always (): the existing program is the one that is compiled."""
        return ()

    @cached_property
    def constants(self) -> tuple[Constant, ...]:
        """Arrays that the traced function closes over."""
        found = captured_arrays.constants(self._kept_trace.survey, _nothing)
        return tuple(replace(each, held="") for each in found)

    @cached_property
    def outputs(self) -> tuple[Input, ...]:
        """Outputs with their pytree paths."""
        if self._names is None:
            self.lacks("names of results")
        return self._names()

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


def named_call(name: str, inputs: tuple[Input, ...]) -> TraceableCall:
    """Returns a call that has a name and inputs, but no function."""
    return TraceableCall(name, _nothing, inputs=inputs)


def _nothing() -> None:
    """Placeholder for the missing function."""
