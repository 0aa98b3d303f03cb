"""Evaluates a jaxpr op by op, with each float beside it in float64.

Each equation is executed by itself, so that no fusion changes its rounding. Float64 is evaluated on
the host, with the program's own integers, booleans and branches: both go the same way.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlens import compat
from jaxlens.compat.arrays import is_ref
from jaxlens.errors import UnavailableError, first_line
from jaxlens.interrupts import uninterrupted
from jaxlens.ir.jaxpr.bodies import JaxprBody, opened
from jaxlens.ir.jaxpr.params import with_counts
from jaxlens.questions.numerics.rounding import BITS, DotRounding, RoundingExecution
from jaxlens.taps.pieces import OpenedJaxpr, WrittenOperand, open_calls
from jaxlens.taps.primitives import LOOPS, Path
from jaxlens.taps.refs import bind, makes_ref

_MOST = 50_000  # executions of equations that are measured
# Parameters of primitives that name an element type.
_DTYPES = ("new_dtype", "preferred_element_type", "dtype", "out_dtype")
_DOTS = ("dot_general", "conv_general_dilated")
_BIG = 1_000_000  # elements of an operand above which a product is not computed again
# The smallest normal number: below it, ulps become no smaller.
_LEAST = {"float32": 2.0**-126, "complex64": 2.0**-126, "bfloat16": 2.0**-126, "float16": 2.0**-14}


class TooManyError(Exception):
    """A loop executes more equations than are measured."""


@dataclass(slots=True)
class ShadowedValue:
    """A value of the program, and the same in float64.

    Attributes:
        value: The value as the program computes it.
        exact: The value in the program in float64, a NumPy array; None if rounding has not changed
            it.
        maker: The index of the execution that made it; -1 for none.
    """

    value: Any
    exact: Any = None
    maker: int = -1

    def as_float64(self) -> Any:
        """Returns the exact value; integers, booleans and keys as they are."""
        return wide(self.value) if self.exact is None else self.exact


@dataclass(slots=True)
class ShadowInterpreter:
    """Interprets a jaxpr op by op, with the same in float64 beside it.

    Attributes:
        known: The program's bodies.
        follow: Whether float64 is evaluated too.
        executions: The errors measured, in the order of execution.
        dots: Matrix products and convolutions, by equation.
        unknown: Equations that cannot be evaluated in float64.
        programs: The bodies with their calls opened, by identity and path.
        kept: The number of iterations of a loop, at the first of which its values are kept.
        runs: The bodies executed with their values by number, by the equation that has them; () is
            that of the program.
    """

    known: dict[int, JaxprBody] = field(repr=False)
    follow: bool = True
    executions: list[RoundingExecution] = field(default_factory=list)
    dots: dict[Path, DotRounding] = field(default_factory=dict)
    unknown: dict[Path, None] = field(default_factory=dict)
    programs: dict[tuple[int, Path], OpenedJaxpr] = field(default_factory=dict, repr=False)
    kept: int = 0
    runs: dict[Path, list[tuple[OpenedJaxpr, dict[int, Any]]]] = field(
        default_factory=dict, repr=False
    )

    def evaluate_body(
        self,
        closed: Any,
        args: Sequence[ShadowedValue],
        path: Path = (),
        iterations: tuple[int, ...] = (),
    ) -> list[ShadowedValue]:
        """Evaluates the equations of a body in order, and returns its results."""
        if (id(closed), path) not in self.programs:
            self.programs[id(closed), path] = open_calls(closed, path, self.known)
        program = self.programs[id(closed), path]
        values = {n: ShadowedValue(const) for n, const in program.consts.items()}
        values.update(zip(program.inputs, args, strict=True))

        def value(n: int | WrittenOperand) -> ShadowedValue:
            if isinstance(n, WrittenOperand):
                return ShadowedValue(np.asarray(n.value, n.dtype))
            return values[n]

        for index, step in enumerate(program.steps):
            operands = [value(n) for n in step.reads]
            results = self.evaluate_equation(step.eqn, operands, step.path, iterations)
            values.update(zip(step.writes, results, strict=True))
            for n in (*step.reads, *step.writes):  # free each value after its last use
                if isinstance(n, int) and program.last.get(n, -1) <= index and not self.kept:
                    values.pop(n, None)
        if max(iterations, default=0) < self.kept:
            run = program, {n: x.value for n, x in values.items()}
            self.runs.setdefault(path, []).append(run)
        return [value(n) for n in program.results]

    def evaluate_equation(
        self, eqn: Any, operands: list[ShadowedValue], path: Path, iterations: tuple[int, ...]
    ) -> list[ShadowedValue]:
        """Evaluates one equation, with the bodies in it."""
        name, params = eqn.primitive.name, with_counts(eqn)
        if name == "cond":
            branches = params["branches"]
            index = min(max(int(operands[0].value), 0), len(branches) - 1)
            return self.evaluate_body(branches[index], operands[1:], path, iterations)
        if name in LOOPS:
            before = len(self.executions)
            try:
                loop = self.evaluate_scan if name == "scan" else self.evaluate_while
                return loop(params, operands, path, iterations)
            except TooManyError:
                del self.executions[before:]
        return self.evaluate_primitive(eqn, operands, path, iterations)

    def evaluate_scan(
        self, params: Any, operands: list[ShadowedValue], path: Path, iterations: tuple[int, ...]
    ) -> list[ShadowedValue]:
        """Evaluates the body of a `scan` once per row of its inputs."""
        first, carried, length = params["num_consts"], params["num_carry"], params["length"]
        consts, carry = operands[:first], operands[first : first + carried]
        rows = [_rows(x, length) for x in operands[first + carried :]]
        outs: list[list[ShadowedValue]] = []
        order = range(length - 1, -1, -1) if params["reverse"] else range(length)
        for n, row in enumerate(order):
            given = [*consts, *carry, *(x[row] for x in rows)]
            results = self.evaluate_body(params["jaxpr"], given, path, (*iterations, n))
            carry = results[:carried]
            outs.append(results[carried:])
            self.check_length()
        if not outs:
            raise TooManyError  # without iterations the primitive itself makes the results
        outs = outs[::-1] if params["reverse"] else outs
        return [*carry, *(_stacked(column) for column in zip(*outs, strict=True))]

    def evaluate_while(
        self, params: Any, operands: list[ShadowedValue], path: Path, iterations: tuple[int, ...]
    ) -> list[ShadowedValue]:
        """Evaluates the bodies of a `while` until its condition, of the program's values, fails."""
        n, m = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        carry, number = operands[m:], 0
        while True:
            at = (*iterations, number)
            (go_on,) = self.evaluate_body(params["cond_jaxpr"], [*operands[:n], *carry], path, at)
            if not bool(go_on.value):
                return carry
            carry = self.evaluate_body(params["body_jaxpr"], [*operands[n:m], *carry], path, at)
            number += 1
            self.check_length()

    def check_length(self) -> None:
        """Raises where a loop has executed more equations than are measured."""
        if len(self.executions) > _MOST:
            raise TooManyError

    def evaluate_primitive(
        self, eqn: Any, operands: list[ShadowedValue], path: Path, iterations: tuple[int, ...]
    ) -> list[ShadowedValue]:
        """Executes the primitive of an equation, and measures the errors of its results."""
        values = [operand.value for operand in operands]
        if makes_ref(eqn) or any(map(is_ref, values)):
            raise UnavailableError("digits are not followed through what a program writes to refs")
        try:
            made = jax.block_until_ready(bind(eqn, values))  # type: ignore[no-untyped-call]
        except (jax.errors.JaxRuntimeError, FloatingPointError):
            raise
        except Exception as raised:  # whatever a primitive of the user's raises
            name = eqn.primitive.name
            text = f"`{name}` cannot be executed by itself, op by op: {first_line(raised, 100)}"
            raise UnavailableError(text) from None
        results = [ShadowedValue(x) for x in made]
        if not self.follow or not any(is_float(x) for x in made):
            return results
        if not any(is_float(x) for x in values) and eqn.primitive.name != "convert_element_type":
            return results  # counted, drawn or reinterpreted, not computed: exact by definition
        with in_float64():
            try:
                of_values = in_program = exactly(eqn, values)
                if any(operand.exact is not None for operand in operands):
                    in_program = exactly(eqn, [x.as_float64() for x in operands])
            except Exception:  # a primitive that refuses float64 says so in an error of its own
                self.unknown[path] = None
                return results
        makers = tuple(operand.maker for operand in operands)
        for result, of_same, exact in zip(results, of_values, in_program, strict=True):
            if not is_float(result.value):
                continue
            result.exact = exact
            dtype = str(np.asarray(result.value).dtype)
            if dtype in BITS:
                total, worst = largest_error(result.value, exact, dtype)
                own, _ = largest_error(result.value, of_same, dtype)
                result.maker = len(self.executions)
                at = [_element(x, worst, exact.shape) for x in (result.value, exact)]
                read = tuple(_element(x.value, worst, exact.shape) for x in operands)
                read_exact = tuple(_element(x.as_float64(), worst, exact.shape) for x in operands)
                execution = RoundingExecution(
                    path, iterations, dtype, own, total, makers,
                    at[0] or 0.0, at[1] or 0.0, read, read_exact,
                )  # fmt: skip
                self.executions.append(execution)
                if eqn.primitive.name in _DOTS and path not in self.dots:
                    self.measure_dot(eqn, values, of_same, execution)
        return results

    def measure_dot(self, eqn: Any, values: Any, exact: Any, default: RoundingExecution) -> None:
        """Measures a product with precision=HIGHEST too."""
        if max(np.size(x) for x in values) > _BIG:
            return
        try:
            (made,) = bind(eqn, values, precision=(jax.lax.Precision.HIGHEST,) * 2)
            highest = largest_error(made, exact, default.dtype)[0]
        except Exception:  # a primitive that refuses this precision, likewise
            highest = None
        given = eqn.params.get("precision")
        first = given[0] if isinstance(given, tuple) else given
        text = "DEFAULT" if first is None else getattr(first, "name", str(first))
        self.dots[default.path] = DotRounding(text, default.own, highest)


@uninterrupted
def in_float64() -> Iterator[None]:
    """Evaluates the block with 64 bits, on the host if JAX has a CPU backend."""
    try:
        host = jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        host = None
    with jax.enable_x64(True), jax.default_device(host):
        yield


def exactly(eqn: Any, operands: Sequence[Any]) -> list[Any]:
    """Executes an equation in float64; returns NumPy arrays."""
    values = [wide(x) for x in operands]
    if eqn.primitive.name == "reduce_precision":
        return values[:1]
    changed = {
        name: _wide_dtype(eqn.params[name])
        for name in _DTYPES
        if eqn.params.get(name) is not None and _inexact(eqn.params[name])
    }
    changed |= {name: _wide_body(x) for name, x in eqn.params.items() if opened(x) is not None}
    if eqn.params.get("precision") is not None:
        changed["precision"] = None
    # On a CPU the array of a failed allocation ends the process where NumPy reads it.
    results = jax.block_until_ready(bind(eqn, values, **changed))  # type: ignore[no-untyped-call]
    return [np.asarray(x) for x in results]


def as_function(jaxpr: Any, consts: Sequence[Any]) -> Any:
    """Returns a jaxpr as a function of its inputs."""
    as_fun = compat.extend("core", "jaxpr_as_fun")
    return as_fun(compat.extend("core", "ClosedJaxpr")(jaxpr, consts))


def _wide_body(body: Any) -> Any:
    """Returns the body of an equation such as `scatter-add`, traced in float64."""
    jaxpr = opened(body)
    dtypes = [v.aval.dtype for v in jaxpr.invars]
    dtypes = [_wide_dtype(dtype) if _inexact(dtype) else dtype for dtype in dtypes]
    struct: Any = jax.ShapeDtypeStruct
    avals = [struct(v.aval.shape, d) for v, d in zip(jaxpr.invars, dtypes, strict=True)]
    made = jax.make_jaxpr(as_function(jaxpr, getattr(body, "consts", ())))(*avals)
    return made if jaxpr is not body else made.jaxpr


def wide(x: Any) -> Any:
    """Returns floats in float64 or complex128, other values as they are; on the host."""
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        return x
    array = np.asarray(x)
    return array.astype(_wide_dtype(array.dtype)) if is_float(array) else array


def is_float(x: Any) -> bool:
    """Whether a value has floating-point or complex elements."""
    return _inexact(x.dtype)


def _inexact(dtype: Any) -> bool:
    return bool(jnp.issubdtype(dtype, np.inexact))


def _wide_dtype(dtype: Any) -> Any:
    return np.complex128 if jnp.issubdtype(dtype, np.complexfloating) else np.float64


def largest_error(result: Any, exact: Any, dtype: str) -> tuple[float, int]:
    """Returns the error of the worst element in ulps, and its flat index; see `element_errors`."""
    error = element_errors(result, exact, dtype)
    if not error.size:
        return 0.0, 0
    worst = int(np.argmax(error))
    return float(error[worst]), worst


def element_errors(result: Any, exact: Any, dtype: str) -> Any:
    """Returns the error of each element in ulps, a flat array.

    An exact value that is not finite, or that is 0 but for the rounding of float64, has no relative
    error: its error counts as 0.

    Args:
        result: The values.
        exact: What they should be.
        dtype: The element type whose ulps are counted; one that is not in `BITS` as float64.
    """
    value, truth = wide(result).ravel(), np.asarray(exact).ravel()
    if not truth.size:
        return np.zeros(0)
    with np.errstate(all="ignore"):
        size = np.abs(truth)
        finite = np.isfinite(truth)
        most = np.max(size, where=finite, initial=0.0)
        mean = np.mean(np.square(np.where(finite, size, 0) / (most or 1.0)))
        floor = most * np.sqrt(mean) if truth.size > 1 else 0.0
        least = _LEAST.get(dtype, 2.0**-1022)
        scale = np.maximum(np.maximum(size, floor), least)
        _, exponent = np.frexp(np.where(finite, scale, 1.0))
        difference = np.abs(value - truth)
        error = np.ldexp(difference, BITS.get(dtype, 53) - exponent)
        error = np.where(np.isfinite(value), error, np.inf)
        # An exact 0, or what float64 leaves of one: 2**42 times less than the error of float16 and
        # 2**45 times less than that of bfloat16. Of float32 it is 2**29 times: facts.py knows these
        # as residues.
        noise = size <= difference * 2.0**-40
        return np.where(finite & ~(noise & np.isfinite(value)), error, 0.0)


def _element(x: Any, index: int, shape: tuple[int, ...]) -> float | None:
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) or np.shape(x) not in (shape, ()):
        return None
    value = wide(np.asarray(x)).ravel()
    one = value[index if value.size > 1 else 0] if value.size else 0.0
    return float(abs(one) if np.iscomplexobj(one) else one)


def _rows(x: ShadowedValue, length: int) -> list[ShadowedValue]:
    exact = [None] * length if x.exact is None else list(x.exact)
    return [ShadowedValue(x.value[n], exact[n], x.maker) for n in range(length)]


def _stacked(column: Sequence[ShadowedValue]) -> ShadowedValue:
    values = jnp.stack([x.value for x in column])
    if all(x.exact is None for x in column) or not is_float(values):
        return ShadowedValue(values)
    exact = np.stack([x.as_float64() for x in column])
    # The maker of the row with the largest error counts as that of the whole stack.
    dtype = str(values.dtype)
    errors = [largest_error(x.value, x.as_float64(), dtype)[0] for x in column if dtype in BITS]
    worst = int(np.argmax(errors)) if errors else -1
    return ShadowedValue(values, exact, column[worst].maker)
