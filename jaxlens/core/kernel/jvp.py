"""Forward mode: each value carries its tangent along.

`jvp_flat(f, [x], [t])` gives f(x) and the derivative of f at x in the direction t, in one run:
every primitive computes its result and, by its jvp rule, the tangent of its result.

    y = x * sin(x)         dy = dx * sin(x) + x * (cos(x) * dx)

A tangent that is known to be zero stays symbolic (`Zero`), so constants cost nothing.

**Perturbation confusion.** Every call of `jvp_flat` is an interpreter of its own, and a tracer of
another one is a constant to it. Were there one tangent per value, this derivative would be wrong:

    d/dx [x * d/dy (x + y)]       is 1: d/dy (x + y) is 1, so the bracket is x
                                  2 if the inner derivative counts dx as well as dy

In JAX: jax/_src/interpreters/ad.py (`JVPTrace`). After "Evaluating Derivatives" (Griewank and
Walther, 2008), chapter 3; the confusion is described in "Perturbation confusion and referential
transparency" (Siskind and Pearlmutter, 2005).
"""

from collections.abc import Sequence
from typing import Any

from jaxlens.core.kernel.basics import Zero
from jaxlens.core.kernel.interpreter import (
    Interpreter,
    Primitive,
    Tracer,
    aval_of,
    interpreting,
    observer,
)
from jaxlens.core.kernel.trace import Flat
from jaxlens.core.kernel.types import tangent_aval


class JVPTracer(Tracer):
    """A value and its tangent."""

    __slots__ = ("primal", "tangent")

    def __init__(self, interpreter: "JVP", primal: Any, tangent: Any) -> None:
        self.interpreter = interpreter
        self.aval = aval_of(primal)
        self.primal = primal
        self.tangent = tangent


class JVP(Interpreter):
    """Computes results and tangents by the jvp rules, in the interpreter below."""

    def split(self, value: Any) -> tuple[Any, Any]:
        """Returns value and tangent; the tangent of what is no tracer of this one is zero."""
        if type(value) is JVPTracer and value.interpreter is self:
            return value.primal, value.tangent
        return value, Zero(tangent_aval(aval_of(value)))

    def join(self, primal: Any, tangent: Any) -> Any:
        """Returns a tracer of both; the value alone if its tangent is zero."""
        return primal if type(tangent) is Zero else JVPTracer(self, primal, tangent)

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        primals, tangents = zip(*map(self.split, args), strict=True) if args else ((), ())
        with interpreting(self.parent):
            if all(type(tangent) is Zero for tangent in tangents):
                return primitive.bind(*primals, **params)
            observer.emit("rule", primitive.name, rule="jvp")
            pair = primitive.jvp(primals, tangents, **params)
        return primitive.joined("jvp", "(result, tangent)", pair, self.join)


def jvp_flat(f: Flat, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """`jvp` of a function of flat lists; tangents may be `Zero`, in and out."""
    interpreter = JVP()
    with interpreting(interpreter):
        results = f(*map(interpreter.join, primals, tangents))
    pairs = [interpreter.split(result) for result in results]
    interpreter.done = True
    return [primal for primal, _ in pairs], [tangent for _, tangent in pairs]
