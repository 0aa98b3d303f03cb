"""What one run had of NaN and infinities, by equation."""

from collections.abc import Mapping
from dataclasses import dataclass

CALLS = {
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}
"""Equations that are one call of a body, by primitive, with the parameter that has the body."""

LOOPS = ("scan", "while")
"""Primitives that run a body more than once."""

INSIDE = frozenset({*CALLS, *LOOPS, "cond", "shard_map"})
"""Primitives whose bodies are measured; others with bodies are measured as a whole."""

MOVES = frozenset(
    "abs broadcast_in_dim copy neg new_ref pvary rev reshape squeeze transpose".split()
)
"""Primitives whose results have the elements of the first operand, but for order and sign.

A result has a NaN or an infinity where that operand has, so nothing is measured.
"""

GUARDS = (
    dict.fromkeys(("mul", "div"), "0 as the result of {} wherever an operand is 0")
    | dict.fromkeys(("log", "sqrt", "rsqrt"), "jnp.maximum(x, tiny) as the operand of {}")
    | dict.fromkeys(("acos", "asin"), "jnp.clip(x, -1, 1) as the operand of {}")
    | {"pow": "0 as the result of {} wherever the base is 0"}
    | {"select_n": "±1e30 in the place of infinity in {}"}
    | dict.fromkeys(("exp", "exp2", "expm1"), "a bound below the overflow as the operand of {}")
)
"""How a cure is tried, by primitive: what is changed of the equations that are named."""

Path = tuple[str, ...]
"""An equation within a run: the ids of the equations whose bodies lead to it, and its own id."""


@dataclass(frozen=True, slots=True)
class NonFiniteExecution:
    """The first execution of an equation that had NaN, or infinities, in its results.

    Attributes:
        iterations: Iterations of the loops around it, from 0, the outermost first.
        device: Index of the device in the mesh of its `shard_map`; None outside of one.
        chosen: Indices of the operands that gave the result of a `select_n` such elements; None for
            other equations.
    """

    iterations: tuple[int, ...] = ()
    device: int | None = None
    chosen: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class NonFiniteRun:
    """The NaN and infinities of one run.

    Equations that only move elements, and those with a body that was measured, are left out.

    Attributes:
        nan: The first execution with NaN, of each equation that had one.
        inf: The first execution with infinities, likewise.
        nan_inputs: Indices of the program's inputs with a NaN.
        inf_inputs: Those with an infinity.
        nan_results: Indices of the program's results with a NaN; after them count its constants and
            inputs that are refs, with what they hold at the end.
        inf_results: Those with an infinity.
    """

    nan: Mapping[Path, NonFiniteExecution]
    inf: Mapping[Path, NonFiniteExecution]
    nan_inputs: tuple[int, ...] = ()
    inf_inputs: tuple[int, ...] = ()
    nan_results: tuple[int, ...] = ()
    inf_results: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ValueRange:
    """What one value held in one execution.

    Attributes:
        least: The smallest element that is no NaN; NaN if there is none.
        most: The largest, likewise.
        elements: Number of elements.
        zeros: Number of zeros.
        nan: Number of NaN.
        inf: Number of infinities.
        first: The index of the first NaN, else of the first infinity; None if all are finite.
    """

    least: float
    most: float
    elements: int
    zeros: int
    nan: int
    inf: int
    first: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class EquationValues:
    """What the operands and results of an equation held in one execution; None for no floats."""

    operands: tuple[ValueRange | None, ...]
    results: tuple[ValueRange | None, ...]
