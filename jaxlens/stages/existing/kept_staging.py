"""A trace or a lowering that exists already, in the place of one of a call.

It answers as the `TracedCall` of a call does. What only the call itself could tell (its cache
verdict, its line trace, its arguments) is an UnavailableError.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, NoReturn

from jaxlens.errors import UnavailableError
from jaxlens.ir.driver import no_call
from jaxlens.ir.facts import Constant, Input, Timing
from jaxlens.ir.line_trace import Tape
from jaxlens.stages import compat
from jaxlens.stages.arguments import captured_arrays
from jaxlens.stages.call import isolate
from jaxlens.stages.call.call import Call
from jaxlens.stages.call.target import ResolvedTarget
from jaxlens.stages.call.traceable import TraceableCall
from jaxlens.stages.session.tracing import TracedCall
from jaxlens.stages.trace import lower, stamp, trace


class ExistingTrace(TracedCall):
    """What is there of a program, and how to get the next step of it.

    Args:
        call: The call, of which only name and inputs are known.
        place: Where it is to run.
        holder: What it was read from, as a noun with its article: "a jax.stages.Lowered".
        cure: How to get what it lacks, as the end of a message.
        traced: JAX's own traced object; None where there is none.
        make: Makes the lowered object from that; gives the one that is there where there is one.
        names: Makes the outputs.
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
        """Says that it holds no such thing, and what to do."""
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
        """JAX's own traced object."""
        return self._kept_trace.traced

    @cached_property
    def lowering(self) -> lower.Lowering:
        """The lowering that is there, or one of the trace that is there."""
        if self._make is not None:
            return lower.Lowering(self._make(), 0.0)
        done = self._kept_trace
        with isolate.untouched(done.context):
            lowered, ids = stamp.lowered(done.traced, lambda t: t.lower())
        # JAX hands the same module to whoever lowers this trace, and ours gets stamps.
        return lower.Lowering(compat.own_copy(lowered) or lowered, 0.0, "", ids)

    @property
    def stand_in(self) -> str:
        """Never one: what is there is compiled, however large the arrays in it are."""
        return ""

    def waiting(self) -> Callable[[float], None] | None:
        """No limit: there is no call of which a stand-in could be made."""
        return None

    def deviations(self) -> tuple[str, ...]:
        """None: what is there is the program."""
        return ()

    @cached_property
    def constants(self) -> tuple[Constant, ...]:
        """Arrays that the traced function closed over."""
        found = captured_arrays.constants(self._kept_trace.survey, _nothing)
        return tuple(replace(each, held="") for each in found)

    @cached_property
    def outputs(self) -> tuple[Input, ...]:
        """Results with their pytree paths."""
        if self._names is None:
            self.lacks("names of results")
        return self._names()

    def times(self) -> tuple[Timing, ...]:
        """Nothing: what is there was made before."""
        return ()

    def given(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Nothing to run it with."""
        self.lacks("arguments to run it with")

    @property
    def opened(self) -> Call:
        """No call."""
        self.lacks("Python function that could be traced")

    def tape(self) -> Tape:
        """No tracing."""
        self.lacks("Python function whose tracing could be followed")


def named_call(name: str, inputs: tuple[Input, ...]) -> TraceableCall:
    """A call of which no more is known than a name and its inputs."""
    return TraceableCall(name, _nothing, inputs=inputs)


def _nothing() -> None:
    """Stands for the function that is not there."""
