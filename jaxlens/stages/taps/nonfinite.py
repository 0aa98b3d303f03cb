"""Measures NaN and infinities in a run: which equations have them, and what made one of them."""

import functools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxlens.ir.run.nonfinite import (
    EquationValues,
    NonFiniteExecution,
    NonFiniteRun,
    Path,
    ValueRange,
)
from jaxlens.stages.taps.evaluate import Site, deepest, equation, execute

_BITS = 31  # operands that one integer can mark
_HEAD = 5  # elements of a row before the iterations


class FirstNonFinite:
    """Measures the first execution of each equation that gave a NaN, and the first infinity.

    Two rows per equation, one for NaN and one for infinities: how many elements are such, the
    operands with a NaN and those with an infinity as bits, the device, and the iterations.
    """

    rows = 2
    dtype = jnp.int32

    def __init__(self, depth: int) -> None:
        self.width = _HEAD + depth

    def wants(self, path: Path, eqn: Any) -> bool:
        """Whether an equation has a result that can be NaN."""
        return any(_inexact(var.aval) for var in eqn.outvars)

    def measure(self, site: Site, operands: Sequence[Any], results: Sequence[Any]) -> Any:
        """Returns the two rows of one execution."""
        nan_in = _bits([_any(jnp.isnan, x) for x in operands])
        inf_in = _bits([_any(jnp.isinf, x) for x in operands])
        if site.eqn.primitive.name == "select_n":
            nan_in = _bits(_chosen(jnp.isnan, operands))
            inf_in = _bits(_chosen(jnp.isinf, operands))
        device = jnp.int32(0) if site.device is None else site.device + 1
        steps = [jnp.asarray(n, jnp.int32) for n in site.iterations]
        steps += [jnp.int32(0)] * (self.width - _HEAD - len(steps))
        rows = []
        for test in (jnp.isnan, jnp.isinf):
            number = sum((_count(test, x) for x in results), jnp.int32(0))
            found = (number > 0).astype(jnp.int32)
            row = jnp.stack([found, nan_in, inf_in, number, device, *steps])
            rows.append(row * found)
        return jnp.stack(rows)

    def merge(self, before: Any, now: Any) -> Any:
        """Keeps the earlier execution, if it has one."""
        return jnp.where(before[..., :1] > 0, before, now)

    def join(self, one: Any, other: Any) -> Any:
        """Keeps the earlier one; of the same time, that with such an operand.

        After a collective every device has a NaN, and only the one that sent it had it before.
        """
        before = one[..., :1] > 0
        before &= other[..., :1] == 0
        equal = (one[..., :1] > 0) & (other[..., :1] > 0)
        for n in range(_HEAD, self.width):
            mine, its = one[..., n : n + 1], other[..., n : n + 1]
            before |= equal & (mine < its)
            equal &= mine == its
        sent = jnp.any(one[..., 1:3] > 0, axis=-1, keepdims=True)
        received = ~jnp.any(other[..., 1:3] > 0, axis=-1, keepdims=True)
        return jnp.where(before | (equal & (sent | received)), one, other)


class Ranges:
    """Measures the operands and results of one equation, in one execution.

    A row for each value: whether it was measured, least, most, zeros, NaN, infinities, and the flat
    index of the first NaN or infinity.

    Args:
        path: The equation.
        values: Number of its operands and results.
        at: The execution.
    """

    width = 7
    dtype = jnp.float32

    def __init__(self, path: Path, values: int, at: NonFiniteExecution) -> None:
        self.rows, self._path, self._at = values, path, at

    def wants(self, path: Path, eqn: Any) -> bool:
        """Whether it is the equation."""
        return path == self._path

    def measure(self, site: Site, operands: Sequence[Any], results: Sequence[Any]) -> Any:
        """Returns the rows; of zeros, if this is another execution."""
        here: Any = jnp.bool_(True)
        for one, other in zip(site.iterations, self._at.iterations, strict=False):
            here &= one == other
        if site.device is not None:
            here &= site.device == self._at.device
        rows = jnp.stack([_range_row(x) for x in (*operands, *results)])
        return jnp.where(here, rows, 0.0)

    def merge(self, before: Any, now: Any) -> Any:
        """Keeps the one that was measured."""
        return jnp.where(before[..., :1] > 0, before, now)

    join = merge


def run(closed: Any, args: Sequence[Any]) -> NonFiniteRun:
    """Runs a program once, and returns which equations had NaN and infinities.

    Args:
        closed: A closed jaxpr of JAX's.
        args: Its arguments; none is donated.
    """
    results, rows = execute(closed, FirstNonFinite(deepest(closed)), args)
    return _run(rows, args, results)


def _run(rows: Mapping[Path, Any], args: Sequence[Any], results: Sequence[Any]) -> NonFiniteRun:
    nan = {path: _execution(row[0]) for path, row in rows.items() if row[0][0]}
    inf = {path: _execution(row[1]) for path, row in rows.items() if row[1][0]}
    return NonFiniteRun(
        nan, inf, *(_with(test, values) for values in (args, results) for test in _TESTS)
    )


def equation_values(
    closed: Any, args: Sequence[Any], path: Path, at: NonFiniteExecution
) -> EquationValues:
    """Runs a program once more, and returns what one execution of an equation read and made."""
    eqn = equation(closed, path[-1])
    atoms = (*eqn.invars, *eqn.outvars)
    _, rows = execute(closed, Ranges(path, len(atoms), at), args)
    ranges = [_range(row, atom.aval) for row, atom in zip(rows[path], atoms, strict=True)]
    n = len(eqn.invars)
    return EquationValues(tuple(ranges[:n]), tuple(ranges[n:]))


def guarded(
    closed: Any, args: Sequence[Any], paths: Collection[Path]
) -> tuple[NonFiniteRun, float]:
    """Runs a program in which some equations give 0 where an operand of theirs is 0.

    Returns:
        Which equations have NaN and infinities then, and the largest change of an element of a
        result that is finite without the change.
    """

    def change(site: Site, operands: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
        if site.path not in paths:
            return results
        zero = [jnp.asarray(x == 0) for x in operands if _inexact(x)]
        any_zero = functools.reduce(jnp.logical_or, zero)
        return [jnp.where(any_zero, jnp.zeros_like(y), y) for y in results]

    probe = FirstNonFinite(deepest(closed))
    before, _ = execute(closed, probe, args)
    after, rows = execute(closed, probe, args, change)
    pairs = [(a, b) for a, b in zip(before, after, strict=True) if _inexact(a)]
    return _run(rows, args, after), max((_change(a, b) for a, b in pairs), default=0.0)


def _change(before: Any, after: Any) -> float:
    a, b = (np.asarray(x, np.complex128) for x in (before, after))
    both = np.isfinite(a) & np.isfinite(b)
    return float(np.abs(a - b)[both].max(initial=0.0))


_TESTS = (jnp.isnan, jnp.isinf)


def _with(test: Any, values: Sequence[Any]) -> tuple[int, ...]:
    return tuple(n for n, x in enumerate(values) if _inexact(x) and bool(jnp.any(test(x))))


def _execution(row: Any) -> NonFiniteExecution:
    _, nan, inf, elements, device, *iterations = map(int, row)
    return NonFiniteExecution(
        elements, _indices(nan), _indices(inf), tuple(iterations), device - 1 if device else None
    )


def _indices(bits: int) -> tuple[int, ...]:
    return tuple(n for n in range(_BITS) if bits >> n & 1)


def _range_row(x: Any) -> Any:
    if not _inexact(x):
        return jnp.zeros(Ranges.width, jnp.float32)
    value = jnp.asarray(x)
    size = jnp.abs(value) if jnp.iscomplexobj(value) else value
    real = size.astype(jnp.float32).ravel()
    nan, inf = jnp.isnan(value).ravel(), jnp.isinf(value).ravel()
    bad = jnp.where(jnp.any(nan), nan, inf)
    least = jnp.min(jnp.where(nan, jnp.inf, real), initial=jnp.inf)
    most = jnp.max(jnp.where(nan, -jnp.inf, real), initial=-jnp.inf)
    first = jnp.argmax(bad) if real.size else 0
    figures = [1, least, most, jnp.sum(value == 0), jnp.sum(nan), jnp.sum(inf), first]
    return jnp.stack([jnp.asarray(figure, jnp.float32) for figure in figures])


def _range(row: Any, aval: Any) -> ValueRange | None:
    measured, least, most, zeros, nan, inf, first = map(float, row)
    if not measured:
        return None
    shape = tuple(aval.shape)
    elements = math.prod(shape)
    index = tuple(int(n) for n in np.unravel_index(int(first), shape)) if elements else ()
    if int(nan) == elements:
        least = most = math.nan
    where = index if nan or inf else None
    return ValueRange(least, most, elements, int(zeros), int(nan), int(inf), where)


def _inexact(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return isinstance(value, float | complex)
    return bool(jnp.issubdtype(dtype, jnp.inexact))


def _any(test: Any, x: Any) -> Any:
    return jnp.any(test(x)) if _inexact(x) else np.False_


def _count(test: Any, x: Any) -> Any:
    return jnp.sum(test(x), dtype=jnp.int32) if _inexact(x) else jnp.int32(0)


def _chosen(test: Any, operands: Sequence[Any]) -> list[Any]:
    """Whether each case of a `select_n` gave its result such an element."""
    which, *cases = operands
    index = jnp.asarray(which).astype(jnp.int32)
    return [np.False_, *(_case(test, x, index == n) for n, x in enumerate(cases))]


def _case(test: Any, x: Any, here: Any) -> Any:
    return jnp.any(test(x) & here) if _inexact(x) else np.False_


def _bits(flags: Sequence[Any]) -> Any:
    """Joins flags to an integer; the last bit stands for all operands from there on."""
    total: Any = jnp.int32(0)
    for n, flag in enumerate(flags):
        total = total | (jnp.asarray(flag).astype(jnp.int32) << min(n, _BITS - 1))
    return total
