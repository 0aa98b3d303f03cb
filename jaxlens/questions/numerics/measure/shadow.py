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
_DTYPES = ("new_dtype", "preferred_element_type", "dtype", "out_dtype")
_DOTS = ("dot_general", "conv_general_dilated")
_BIG = 1_000_000  # elements of an operand above which a product is not computed again
_LEAST = {"float32": 2.0**-126, "complex64": 2.0**-126, "bfloat16": 2.0**-126, "float16": 2.0**-14}


class TooManyError(Exception):
    """A loop executes more equations than are measured."""


@dataclass(slots=True)
class ShadowedValue:
    """A value of the program, and the same in float64.

    Attributes:
        own: The value.
        exact: In float64, a NumPy array; None if that is the value itself.
        maker: The index of the execution that made it; -1 for none.
    """

    own: Any
    exact: Any = None
    maker: int = -1

    def shadow(self) -> Any:
        """Returns the value in float64, or as it is if it is no float."""
        return wide(self.own) if self.exact is None else self.exact


@dataclass(slots=True)
class Shadow:
    """Evaluates a program op by op.

    Attributes:
        known: The program's bodies.
        follow: Whether float64 is evaluated beside it.
        executions: What was measured.
        dots: Products, by equation.
        unknown: Equations without a float64.
        programs: The bodies, with their calls opened.
    """

    known: dict[int, JaxprBody] = field(repr=False)
    follow: bool = True
    executions: list[RoundingExecution] = field(default_factory=list)
    dots: dict[Path, DotRounding] = field(default_factory=dict)
    unknown: dict[Path, None] = field(default_factory=dict)
    programs: dict[tuple[int, Path], OpenedJaxpr] = field(default_factory=dict, repr=False)

    def body(
        self,
        closed: Any,
        args: Sequence[ShadowedValue],
        path: Path = (),
        iterations: tuple[int, ...] = (),
    ) -> list[ShadowedValue]:
        """Evaluates a body."""
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
            results = self.equation(step.eqn, operands, step.path, iterations)
            values.update(zip(step.writes, results, strict=True))
            for n in (*step.reads, *step.writes):  # large programs: what is read no more is freed
                if isinstance(n, int) and program.last.get(n, -1) <= index:
                    values.pop(n, None)
        return [value(n) for n in program.results]

    def equation(
        self, eqn: Any, operands: list[ShadowedValue], path: Path, iterations: tuple[int, ...]
    ) -> list[ShadowedValue]:
        """Evaluates one equation, with the bodies in it."""
        name, params = eqn.primitive.name, with_counts(eqn)
        if name == "cond":
            branches = params["branches"]
            index = min(max(int(operands[0].own), 0), len(branches) - 1)
            return self.body(branches[index], operands[1:], path, iterations)
        if name in LOOPS:
            before = len(self.executions)
            try:
                loop = self.scan if name == "scan" else self.loop
                return loop(params, operands, path, iterations)
            except TooManyError:
                del self.executions[before:]
        return self.single(eqn, operands, path, iterations)

    def scan(
        self, params: Any, operands: list[ShadowedValue], path: Path, iterations: tuple[int, ...]
    ) -> list[ShadowedValue]:
        first, carried, length = params["num_consts"], params["num_carry"], params["length"]
        consts, carry = operands[:first], operands[first : first + carried]
        rows = [_rows(x, length) for x in operands[first + carried :]]
        outs: list[list[ShadowedValue]] = []
        order = range(length - 1, -1, -1) if params["reverse"] else range(length)
        for n, row in enumerate(order):
            given = [*consts, *carry, *(x[row] for x in rows)]
            results = self.body(params["jaxpr"], given, path, (*iterations, n))
            carry = results[:carried]
            outs.append(results[carried:])
            self.check()
        if not outs:
            raise TooManyError  # of no iterations the results are as the primitive makes them
        outs = outs[::-1] if params["reverse"] else outs
        return [*carry, *(_stacked(column) for column in zip(*outs, strict=True))]

    def loop(
        self, params: Any, operands: list[ShadowedValue], path: Path, iterations: tuple[int, ...]
    ) -> list[ShadowedValue]:
        n, m = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        carry, number = operands[m:], 0
        while True:
            at = (*iterations, number)
            (go_on,) = self.body(params["cond_jaxpr"], [*operands[:n], *carry], path, at)
            if not bool(go_on.own):
                return carry
            carry = self.body(params["body_jaxpr"], [*operands[n:m], *carry], path, at)
            number += 1
            self.check()

    def check(self) -> None:
        if len(self.executions) > _MOST:
            raise TooManyError

    def single(
        self, eqn: Any, operands: list[ShadowedValue], path: Path, iterations: tuple[int, ...]
    ) -> list[ShadowedValue]:
        """Evaluates an equation by its primitive, and measures it."""
        own = [operand.own for operand in operands]
        if makes_ref(eqn) or any(map(is_ref, own)):
            raise UnavailableError("digits are not followed through what a program writes to refs")
        try:
            made = jax.block_until_ready(bind(eqn, own))  # type: ignore[no-untyped-call]
        except (jax.errors.JaxRuntimeError, FloatingPointError):
            raise
        except Exception as raised:  # whatever a primitive of the user's raises
            name = eqn.primitive.name
            text = f"`{name}` cannot be executed by itself, op by op: {first_line(raised, 100)}"
            raise UnavailableError(text) from None
        results = [ShadowedValue(x) for x in made]
        if not self.follow or not any(is_float(x) for x in made):
            return results
        if not any(is_float(x) for x in own) and eqn.primitive.name != "convert_element_type":
            return results  # counted, drawn or reinterpreted, not computed: exact by definition
        reads_shadow = any(operand.exact is not None for operand in operands)
        with in_float64():
            try:
                here = exactly(eqn, own)
                exact = exactly(eqn, [x.shadow() for x in operands]) if reads_shadow else here
            except Exception:  # a primitive that refuses float64 says so in an error of its own
                self.unknown[path] = None
                return results
        makers = tuple(operand.maker for operand in operands)
        for result, mine, its in zip(results, here, exact, strict=True):
            if not is_float(result.own):
                continue
            result.exact = its
            dtype = str(np.asarray(result.own).dtype)
            if dtype in BITS:
                total, worst = ulps(result.own, its, dtype)
                added, _ = ulps(result.own, mine, dtype)
                result.maker = len(self.executions)
                at = [_element(x, worst, its.shape) for x in (result.own, its)]
                read = tuple(_element(x.own, worst, its.shape) for x in operands)
                read_exact = tuple(_element(x.shadow(), worst, its.shape) for x in operands)
                self.executions.append(
                    RoundingExecution(
                        path, iterations, dtype, added, total, makers,
                        at[0] or 0.0, at[1] or 0.0, read, read_exact,
                    )
                )  # fmt: skip
                if eqn.primitive.name in _DOTS and path not in self.dots:
                    self.dot(eqn, own, mine, added, path, dtype)
        return results

    def dot(self, eqn: Any, own: Any, exact: Any, here: float, path: Path, dtype: str) -> None:
        """Measures a product with precision=HIGHEST too."""
        if max(np.size(x) for x in own) > _BIG:
            return
        try:
            (made,) = bind(eqn, own, precision=(jax.lax.Precision.HIGHEST,) * 2)
            highest = ulps(made, exact, dtype)[0]
        except Exception:  # as above, of a precision
            highest = None
        given = eqn.params.get("precision")
        first = given[0] if isinstance(given, tuple) else given
        text = "DEFAULT" if first is None else getattr(first, "name", str(first))
        self.dots[path] = DotRounding(text, here, highest)


@uninterrupted
def in_float64() -> Iterator[None]:
    """Evaluates the block with 64 bits, on the host where that is to be had."""
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


def ulps(result: Any, exact: Any, dtype: str, *, zero: bool = True) -> tuple[float, int]:
    """Returns the error of the worst element in ulps, and its flat index.

    An exact value that is not finite has no relative error: it counts as 0.

    Args:
        result: The values.
        exact: What they should be.
        dtype: The element type whose ulps are counted.
        zero: Whether an exact value that is 0 but for the rounding of float64 has no error either.
    """
    value, truth = wide(result).ravel(), np.asarray(exact).ravel()
    if not truth.size:
        return 0.0, 0
    with np.errstate(all="ignore"):
        size = np.abs(truth)
        finite = np.isfinite(truth)
        most = np.max(size, where=finite, initial=0.0)
        mean = np.mean(np.square(np.where(finite, size, 0) / (most or 1.0)))
        floor = most * np.sqrt(mean) if truth.size > 1 else 0.0
        least = _LEAST[dtype]
        scale = np.maximum(np.maximum(size, floor), least)
        _, exponent = np.frexp(np.where(finite, scale, 1.0))
        difference = np.abs(value - truth)
        error = np.ldexp(difference, BITS[dtype] - exponent)
        error = np.where(np.isfinite(value), error, np.inf)
        noise = zero & (size <= difference * 2.0**-40)
        error = np.where(finite & ~(noise & np.isfinite(value)), error, 0.0)
    worst = int(np.argmax(error))
    return float(error[worst]), worst


def _element(x: Any, index: int, shape: tuple[int, ...]) -> float | None:
    if not hasattr(x, "dtype") or jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        return None
    if np.shape(x) not in (shape, ()):
        return None
    value = wide(np.asarray(x)).ravel()
    one = value[index if value.size > 1 else 0] if value.size else 0.0
    return float(abs(one) if np.iscomplexobj(one) else one)


def _rows(x: ShadowedValue, length: int) -> list[ShadowedValue]:
    exact = [None] * length if x.exact is None else list(x.exact)
    return [ShadowedValue(x.own[n], exact[n], x.maker) for n in range(length)]


def _stacked(column: Sequence[ShadowedValue]) -> ShadowedValue:
    own = jnp.stack([x.own for x in column])
    if all(x.exact is None for x in column) or not is_float(own):
        return ShadowedValue(own)
    exact = np.stack([x.shadow() for x in column])
    # Of the rows, the one with the largest error says where the stack comes from.
    errors = [ulps(x.own, x.shadow(), str(own.dtype))[0] for x in column if str(own.dtype) in BITS]
    worst = int(np.argmax(errors)) if errors else -1
    return ShadowedValue(own, exact, column[worst].maker)
