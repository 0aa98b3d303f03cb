"""Measures NaN and infinities in a run: which equations have them, and what made one of them.

No run donates. Each raises OptionError where an argument is a shape without data, and
UnavailableError where the program is for a device that this process lacks, was traced by
`jaxlens.core`, or its arrays have been freed.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxlens.compat.arrays import content
from jaxlens.questions.nan.records import (
    EquationValues,
    NonFiniteElements,
    NonFiniteExecution,
    NonFiniteRun,
    ValueRange,
)
from jaxlens.stages.session.running import Running
from jaxlens.taps.evaluate import (
    Probe,
    Site,
    equations,
    evaluated_bodies,
    padding,
)
from jaxlens.taps.execute import CompiledPieces, execute
from jaxlens.taps.primitives import MOVES, Path
from jaxlens.taps.refs import is_inexact

# Marks: bit 1 NaN, bit 0 infinity; then the same pair for each case of a `select_n` that gave them.
# An equation has two rows, for NaN and for infinities: found (0 or 1), cases (the even bits), the
# device + 1 (0 outside of a `shard_map`).
_BITS = 30  # of an integer that are used
_CASES = _BITS // 2 - 1  # cases of a `select_n` that one integer can mark, by two bits each
_EVEN_BITS = sum(1 << n for n in range(0, _BITS, 2))


class FirstNonFinite(Probe):
    """Measures when each equation first had a NaN in its results, and when an infinity.

    Args:
        packed: Whether values of one shape share a reduction, each with bits of its own. XLA fuses
            that with what computes the values; but it joins bits, for which devices have no
            collective, so the program must run on one device.
    """

    width = 3
    dtype = jnp.int32

    def __init__(self, packed: bool) -> None:
        self.key = type(self).__name__, packed
        self._reduced = _packed if packed else _unpacked

    def wants(self, path: Path, eqn: Any) -> bool:
        """Whether an equation has a result that can be NaN, and is measured as a whole."""
        if eqn.primitive.name in MOVES or evaluated_bodies(eqn):
            return False
        return any(is_inexact(var.aval) for var in eqn.outvars)

    def rows(self, eqn: Any) -> int:
        """One for NaN, one for infinities."""
        return 2

    def measure(self, site: Site, operands: Sequence[Any], results: Sequence[Any]) -> Any:
        """Returns the marks of the results of one execution."""
        marks = [_marks(x) for x in results if is_inexact(x)]
        if len(marks) > 1:
            return _Marks(functools.reduce(lax.bitwise_or, map(_largest, marks)), 2)
        (mark,) = marks
        if site.eqn.primitive.name != "select_n":
            return _Marks(mark, 2)
        which, *cases = operands
        for n, case in enumerate(cases[:_CASES]):
            mark |= jnp.where(which == n, _marks(case), 0) << (2 * n + 2)
        return _Marks(mark, 2 + 2 * len(cases[:_CASES]))

    def stack_equations(self, figures: Sequence[Any], compiled_separately: bool) -> tuple[Any, ...]:
        """Returns the marks of each equation."""
        marks = self._reduced(figures)
        return (jnp.pad(marks, (0, padding(len(figures)) if compiled_separately else 0)),)

    def to_rows(self, stacked: tuple[Any, ...], device: Any) -> Any:
        """Returns the rows of a body's equations."""
        (marks,) = stacked
        place = 0 if device is None else device + 1
        rows = []
        for bit in (1, 0):
            found = marks >> bit & 1
            chosen = (marks >> (bit + 2)) & _EVEN_BITS
            rows.append(jnp.stack([found, chosen, jnp.full_like(found, place)], axis=1))
        return jnp.stack(rows, axis=1).reshape(-1, self.width)

    def merge_devices(self, one: Any, other: Any) -> Any:
        """Keeps the earlier execution of the two."""
        before = (one[..., :1] > 0) & (other[..., :1] == 0)
        equal = (one[..., :1] > 0) & (other[..., :1] > 0)
        for n in range(self.width, one.shape[-1]):
            mine, its = one[..., n : n + 1], other[..., n : n + 1]
            before |= equal & (mine < its)
            equal &= mine == its
        return jnp.where(before | equal, one, other)


class Ranges(Probe):
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
        self._values, self._path, self._at = values, path, at
        self.key = path, values, at

    def wants(self, path: Path, eqn: Any) -> bool:
        """Whether `path` is the equation that this probe measures."""
        return path == self._path

    def rows(self, eqn: Any) -> int:
        """One for each value."""
        return self._values

    def measure(self, site: Site, operands: Sequence[Any], results: Sequence[Any]) -> Any:
        """Returns the rows; of zeros, if this is another execution."""
        here: Any = jnp.bool_(True)
        for one, other in zip(site.iterations, self._at.iterations, strict=False):
            here &= one == other
        if site.device is not None:
            here &= site.device == self._at.device
        rows = jnp.stack([_range_row(x) for x in (*operands, *results)])
        return jnp.where(here, rows, 0.0)

    def stack_equations(self, figures: Sequence[Any], compiled_separately: bool) -> tuple[Any, ...]:
        """Returns the rows."""
        return (jnp.concatenate(figures),)


def pieces(live: Running) -> CompiledPieces:
    """Returns the compiled pieces that the runs of one program share."""
    kept: CompiledPieces = live.kept.setdefault("nan", CompiledPieces())
    return kept


def measure_nonfinite(live: Running) -> NonFiniteRun:
    """Runs the program once, and returns which equations had NaN and infinities."""
    with live.measuring("looks for NaN") as (closed, args):
        probe = FirstNonFinite(packed=live.devices == 1)
        results, rows = execute(closed, probe, args, compiled=pieces(live))
        return nonfinite_run(closed, rows, args, results)


def nonfinite_run(
    closed: Any, rows: Mapping[Path, Any], args: Sequence[Any], results: Sequence[Any]
) -> NonFiniteRun:
    """Returns what the rows of a run say.

    Args:
        closed: The program.
        rows: Those of `FirstNonFinite`, by equation.
        args: The program's arguments.
        results: Its results.
    """
    eqns = equations(closed)
    held = [content(x) for x in args]

    def elements(name: Literal["nan", "inf"], n: int, test: Any) -> NonFiniteElements:
        found = {path: _execution(path, row[n], eqns) for path, row in rows.items() if row[n][0]}
        inputs, outputs = (
            [n for n, x in enumerate(values) if is_inexact(x) and bool(jnp.any(test(x)))]
            for values in (held, results)
        )
        return NonFiniteElements(name, found, frozenset(inputs), tuple(outputs))

    return NonFiniteRun(elements("nan", 0, jnp.isnan), elements("inf", 1, jnp.isinf))


def measure_equation(live: Running, path: Path, at: NonFiniteExecution) -> EquationValues:
    """Runs the program once, and returns what one execution of an equation read and made."""
    with live.measuring("looks at what made it") as (closed, args):
        eqn = equations(closed)[path[-1]]
        atoms = (*eqn.invars, *eqn.outvars)
        _, rows = execute(closed, Ranges(path, len(atoms), at), args, compiled=pieces(live))
    ranges = [_range(row, atom.aval) for row, atom in zip(rows[path], atoms, strict=True)]
    n = len(eqn.invars)
    return EquationValues(tuple(ranges[:n]), tuple(ranges[n:]))


def _execution(path: Path, row: Any, eqns: Mapping[str, Any]) -> NonFiniteExecution:
    _, chosen, device, *iterations = map(int, row)
    cases = tuple(n + 1 for n in range(_CASES) if chosen >> 2 * n & 1)
    return NonFiniteExecution(
        tuple(iterations),
        device - 1 if device else None,
        cases if eqns[path[-1]].primitive.name == "select_n" else None,
    )


def _range_row(x: Any) -> Any:
    if not is_inexact(x):
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
    measured, least, most, zeros, nan, inf, first = map(float, row[: Ranges.width])
    if not measured:
        return None
    shape = tuple(aval.shape)
    elements = math.prod(shape)
    index = tuple(int(n) for n in np.unravel_index(int(first), shape)) if elements else ()
    if int(nan) == elements:
        least = most = math.nan
    where = index if nan or inf else None
    return ValueRange(least, most, elements, int(zeros), int(nan), int(inf), where)


class _Marks(NamedTuple):
    """Marks of a value: in each two bits, 2 for NaN and 1 for an infinity.

    Attributes:
        array: An integer for each element, or one for all.
        bits: How many are used.
    """

    array: Any
    bits: int


@jax.jit  # traced and lowered once for each type
def _marks(x: Any) -> Any:
    size = lax.abs(x)
    nan = lax.convert_element_type(lax.ne(x, x), np.int32)
    inf = lax.convert_element_type(lax.eq(size, lax.full_like(size, np.inf)), np.int32)
    return nan << 1 | inf


def _packed(figures: Sequence[_Marks]) -> Any:
    """Returns an integer for each; values of one shape share integers before they are reduced."""
    words: list[Any] = []
    free: dict[tuple[int, ...], tuple[int, int]] = {}  # by shape, the word, and its bits in use
    places: list[tuple[int, int]] = []
    for marks, bits in figures:
        word, used = free.get(marks.shape, (0, _BITS))
        if used + bits > _BITS:
            word, used = len(words), 0
            words.append(marks)
        else:
            words[word] |= marks << used
        free[marks.shape] = word, used + bits
        places.append((word, used))
    reduced = [lax.reduce(x, np.int32(0), lax.bitwise_or, tuple(range(x.ndim))) for x in words]
    which, shifts = np.array(places, np.int32).T
    masks = np.array([(1 << bits) - 1 for _, bits in figures], np.int32)
    return jnp.stack(reduced)[which] >> shifts & masks


def _unpacked(figures: Sequence[_Marks]) -> Any:
    """Returns an integer for each, by maxima of two bits."""
    fields = ([_largest(x >> n & 3) << n for n in range(0, bits, 2)] for x, bits in figures)
    return jnp.stack([functools.reduce(lax.bitwise_or, every) for every in fields])


def _largest(marks: Any) -> Any:
    return lax.reduce(marks, np.int32(0), lax.max, tuple(range(marks.ndim)))
