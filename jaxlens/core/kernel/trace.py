"""Tracing: the interpreter that records what it is asked to apply.

To turn a Python function into a jaxpr, call it once on tracers and let each primitive that they
meet record an equation. Python's own `if` and `for` run meanwhile and leave no trace of themselves:
the jaxpr has the branch that was taken, and every iteration of the loop.

    def f(x):                       x is the tracer of a:f32[]
        for _ in range(2):
            x = sin(x)              b:f32[] = sin a       c:f32[] = sin b
        return x                    in (c,)

In JAX: `DynamicJaxprTrace` in jax/_src/interpreters/partial_eval.py. After "Compiling machine
learning programs via high-level tracing" (Frostig, Johnson, Leary, MLSys 2018).
"""

from collections.abc import Callable, Sequence
from typing import Any

from jaxlens.core.kernel.interpreter import (
    NUMBERS,
    Interpreter,
    Primitive,
    Tracer,
    aval_of,
    interpreting,
    observer,
)
from jaxlens.core.kernel.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from jaxlens.core.kernel.sources import afresh, here
from jaxlens.core.kernel.types import ShapedArray

Flat = Callable[..., Sequence[Any]]  # a function of arrays that returns a list of them


class StagedTracer(Tracer):
    """A variable of the jaxpr that is being recorded."""

    __slots__ = ("variable",)

    def __init__(self, interpreter: "Staging", var: Var) -> None:
        self.interpreter = interpreter
        self.aval = var.aval
        self.variable = var


class Staging(Interpreter):
    """Records an equation for every primitive that is applied.

    Attributes:
        eqns: The equations so far.
        consts: Values taken from outside.
        constvars: Their variables.
    """

    def __init__(self) -> None:
        self.parent: Any = None  # it computes nothing
        self.eqns: list[JaxprEqn] = []
        self.consts: list[Any] = []
        self.constvars: list[Var] = []
        self._constvar_of: dict[int, Var] = {}  # by id; `consts` keeps the objects alive

    def parameter(self, aval: ShapedArray) -> StagedTracer:
        """Returns a tracer for a parameter of the jaxpr."""
        return StagedTracer(self, Var(aval))

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Records an equation; returns tracers for its results."""
        invars = list(map(self.atom, args))
        types = primitive.abstract(*[atom.aval for atom in invars], **params)
        avals = primitive.as_list(types)
        if type(avals) not in (list, tuple) or not {ShapedArray}.issuperset(map(type, avals)):
            raise primitive.misfit("abstract", "a ShapedArray for each result", types)
        outvars = list(map(Var, avals))
        eqn = JaxprEqn(primitive, invars, outvars, params, here())
        self.eqns.append(eqn)
        observer.emit("record", primitive.name, eqn=eqn)
        tracers = [StagedTracer(self, var) for var in outvars]
        return tracers if primitive.multiple_results else tracers[0]

    def atom(self, value: Any) -> Atom:
        """Returns what represents a value in an equation: a variable, a literal or a constant."""
        if type(value) is StagedTracer and value.interpreter is self:
            return value.variable
        if isinstance(value, Tracer):  # of an interpreter further out: a constant to this one
            if value.interpreter.done:
                raise observer.refusal(value, "bind")
        else:
            aval = aval_of(value)
            if not aval.shape and isinstance(value, NUMBERS):
                return Literal(value, aval)
        if id(value) not in self._constvar_of:
            self._constvar_of[id(value)] = Var(aval_of(value))
            self.consts.append(value)
            self.constvars.append(self._constvar_of[id(value)])
        return self._constvar_of[id(value)]

    def closed(self, invars: Sequence[Var], results: Sequence[Any]) -> ClosedJaxpr:
        """Ends the recording; returns the jaxpr with these results."""
        outvars = [self.atom(result) for result in results]
        self.done = True
        return ClosedJaxpr(Jaxpr(self.constvars, invars, outvars, self.eqns), self.consts)


def trace(f: Flat, avals: Sequence[ShapedArray]) -> ClosedJaxpr:
    """Records a function of a flat list of arrays to another.

    Args:
        f: The function; called once.
        avals: The types of its arguments.
    """
    staging = Staging()
    tracers = [staging.parameter(aval) for aval in avals]
    try:
        with interpreting(staging), afresh():
            results = f(*tracers)
        return staging.closed([tracer.variable for tracer in tracers], results)
    finally:
        staging.done = True
