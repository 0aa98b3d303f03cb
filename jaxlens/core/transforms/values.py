"""What leaves the core is a value of it, also where it is a number that nothing was done to.

    core.grad(lambda x: x)(2.0)        # Array(1.0, dtype=float32, weak_type=True)

Inside, a Python or NumPy number may stand for an array: it becomes a literal of the equation that
uses it. While a function is traced, so does the tracer that this file makes of it.
"""

from typing import Any

from jaxlens.core.kernel.interpreter import GROUND, Value, aval_of, current
from jaxlens.core.kernel.jaxpr import Literal
from jaxlens.core.kernel.trace import StagedTracer, Staging
from jaxlens.core.kernel.types import float0


def as_value(x: Any) -> Any:
    """Returns an array or number as an array on a device, or as a tracer where `x` is traced."""
    if isinstance(x, Value) or aval_of(x).dtype == float0:
        return x
    interpreter = current()
    while interpreter.parent is not None:  # to all further out it is a constant
        interpreter = interpreter.parent
    if isinstance(interpreter, Staging):
        atom: Any = interpreter.atom(x)  # a literal serves as the tracer's variable
        return StagedTracer(interpreter, atom)
    return GROUND.backend.array(x)


def as_number(x: Any) -> Any:
    """Returns the number that a tracer of `as_value` stands for, everything else as it is."""
    literal = getattr(x, "variable", None)
    return literal.val if isinstance(literal, Literal) else x
