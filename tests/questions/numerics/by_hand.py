"""The error of each equation of a program, against 50 decimal digits of Python's `decimal`.

Nothing here is jaxlens's, and nothing is float64: JAX executes the equations one by one, and each
number is beside what it would be without rounding.
"""

import math
from decimal import Decimal, DivisionByZero, InvalidOperation, Overflow, localcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_BITS = {"float32": 24, "bfloat16": 8}
_LEAST = Decimal(2) ** -126


def cosine(x: Decimal) -> Decimal:
    """Adds up the series."""
    term, total, n = Decimal(1), Decimal(1), 0
    while abs(term) > Decimal(10) ** -60:
        n += 2
        term *= -x * x / (n * (n - 1))
        total += term
    return total


def _each(function: Any) -> Any:
    return lambda x: np.frompyfunc(function, 1, 1)(x)


_OPERATIONS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "neg": lambda x: -x,
    "square": lambda x: x * x,
    "max": np.maximum,
    "exp": _each(Decimal.exp),
    "log": _each(Decimal.ln),
    "sqrt": _each(Decimal.sqrt),
    "cos": _each(cosine),
    "reduce_sum": np.sum,
    "reduce_max": np.max,
    "dot_general": np.dot,
    "convert_element_type": lambda x: x,
    "stop_gradient": lambda x: x,
    "copy": lambda x: x,
}


def decimals(x: Any) -> Any:
    """Returns the elements of an array, exactly, in an array of `Decimal`."""
    wide = np.asarray(x, np.float64)
    return np.array([Decimal(one) for one in wide.ravel().tolist()], object).reshape(wide.shape)


def ulps(value: Any, exact: Any) -> float:
    """Returns the largest error of an array's elements, in ulps of the exact ones.

    As jaxlens says of itself: an element of an array counts as no smaller than the root mean square
    of all, and one whose exact value is not finite has no error.
    """
    truth, bits = exact.ravel(), _BITS[str(value.dtype)]
    if not all(x.is_finite() for x in truth):
        return 0.0
    if not np.isfinite(np.asarray(value, np.float64)).all():
        return math.inf
    floor = (sum(x * x for x in truth) / len(truth)).sqrt() if len(truth) > 1 else Decimal(0)
    errors = []
    for one, its in zip(decimals(value).ravel(), truth, strict=True):
        _, exponent = math.frexp(float(max(abs(its), floor, _LEAST)))
        errors.append(float(abs(one - its) * Decimal(2) ** (bits - exponent)))
    return max(errors)


def errors(f: Any, args: Any) -> list[tuple[str, float, float]]:
    """Returns the primitive of each equation with a float result, its own error, and the total.

    Both are in ulps, of the worst execution. Own: against the same operation without rounding on
    the same operands. Total: against the program without rounding.
    """
    with localcontext() as context:
        context.prec = 50
        for trap in (InvalidOperation, DivisionByZero, Overflow):
            context.traps[trap] = False
        found: dict[int, tuple[str, float, float]] = {}
        closed = jax.jit(f).trace(*args).jaxpr
        _body(closed, [(x, decimals(x)) for x in args], found)
        return list(found.values())


def _body(closed: Any, args: Any, found: Any) -> list[Any]:
    jaxpr = closed.jaxpr
    values = dict(zip(jaxpr.invars, args, strict=True))
    values.update(
        (v, (x, decimals(x))) for v, x in zip(jaxpr.constvars, closed.consts, strict=True)
    )

    def read(atom: Any) -> Any:
        if not hasattr(atom, "val"):
            return values[atom]
        written = jnp.asarray(atom.val, atom.aval.dtype)
        return written, decimals(written)

    for eqn in jaxpr.eqns:
        operands = [read(atom) for atom in eqn.invars]
        if eqn.primitive.name in ("jit", "pjit"):
            results = _body(eqn.params["jaxpr"], operands, found)
        elif eqn.primitive.name == "scan":
            results = _scan(eqn, operands, found)
        else:
            results = [_equation(eqn, operands, found)]
        values.update(zip(eqn.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _scan(eqn: Any, operands: Any, found: Any) -> Any:
    """Only sums: of a carry and rows, without constants and stacked results."""
    carry, rows = operands[:1], operands[1:]
    for step in range(eqn.params["length"]):
        carry = _body(eqn.params["jaxpr"], [*carry, *((x[step], y[step]) for x, y in rows)], found)
    return carry


def _equation(eqn: Any, operands: Any, found: Any) -> Any:
    name, params = eqn.primitive.name, eqn.primitive.get_bind_params(eqn.params)
    value = eqn.primitive.bind(*(own for own, _ in operands), **params)
    if name in ("broadcast_in_dim", "reshape", "squeeze"):
        operation = lambda x: np.broadcast_to(x, value.shape)  # noqa: E731
    else:
        operation = _OPERATIONS[name]
    mine = np.asarray(operation(*(decimals(own) for own, _ in operands)), object)
    exact = np.asarray(operation(*(its for _, its in operands)), object)
    _, own, total = found.get(id(eqn), (name, 0.0, 0.0))
    found[id(eqn)] = name, max(own, ulps(value, mine)), max(total, ulps(value, exact))
    return value, exact
