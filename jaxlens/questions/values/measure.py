"""Measures what every value of a run held: range, zeros, NaN, the worst iteration.

Values are cut into tiles of one length, so that those of a body are measured by one kernel, however
many there are: what a measurement costs is its compile. A pass over the bits of a tile counts and
compares integers, which XLA vectorises. Integers and booleans are in such tiles too, as the bits of
floats. Tiles are joined by NumPy after the run.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxlens.ir.jaxpr.bodies import bodies, opened
from jaxlens.questions.values.statistics import (
    IntegerStatistics,
    ValuesRun,
    ValueStatistics,
)
from jaxlens.stages.session.running import Running
from jaxlens.taps.evaluate import (
    Probe,
    Site,
    equations,
    evaluated_bodies,
    padding,
)
from jaxlens.taps.execute import execute
from jaxlens.taps.pieces import open_calls
from jaxlens.taps.primitives import MOVES, Path
from jaxlens.taps.refs import is_inexact, is_of

_TILE = 1024
_WHOLE: Any = jax.sharding.PartitionSpec()  # type: ignore[no-untyped-call]
_MOVES = frozenset("broadcast_in_dim copy pvary rev reshape squeeze transpose".split())
# The columns of a row. Floats are stored by their bits; LEAST and MOST in the order of integers.
_COLUMNS = range(11)
(_RUNS, _RANK, _LEAST, _MOST, _SMALLEST, _LARGEST, _ZEROS, _NAN, _INF, _SUBNORMAL,
 _FINITE) = _COLUMNS  # fmt: skip


class Statistics(Probe):
    """Measures every execution of every equation with results of floats, integers or booleans.

    A row for each tile.

    Args:
        wide: Whether the program has an element type of 64 bits.
        has_integers: Whether it has integers or booleans.
    """

    width = len(_COLUMNS)

    def __init__(self, wide: bool, has_integers: bool) -> None:
        self.key = "statistics", wide
        self._has_integers = has_integers
        self.dtype = np.dtype(np.int64 if wide else np.int32)
        self.float: Any = np.dtype(np.float64 if wide else np.float32)
        self._most = int(np.iinfo(self.dtype).max)
        self._infinity = int(np.array(np.inf, self.float).view(self.dtype))
        self._pad = self._word(self._most).view(self.float)

    def wants(self, path: Path, eqn: Any) -> bool:
        """Whether an equation has such results of its own, and is measured as a whole."""
        if eqn.primitive.name in _MOVES or evaluated_bodies(eqn):
            return False
        return any(True for _ in measured_results(eqn))

    def rows(self, eqn: Any) -> int:
        """Number of tiles of its results."""
        return sum(_tiles(aval) for _, aval in measured_results(eqn))

    def measure(self, site: Site, operands: Sequence[Any], results: Sequence[Any]) -> Any:
        """Returns the results, and the mark of each tile of theirs."""
        values, marks = [], []
        for index, aval in measured_results(site.eqn):
            value = _unsharded(results[index])
            # The barrier keeps the equations apart from the copy, which would compute them again.
            value = lax.optimization_barrier(value)  # type: ignore[no-untyped-call]
            values.append((lax.abs(value) if jnp.iscomplexobj(value) else value).ravel())
            marks.append(self._marks(aval))
        return values, np.concatenate(marks)

    def _marks(self, aval: Any) -> Any:
        """Returns the mark of each tile: by which its elements are measured.

        It is the smallest normal number of a float. Of integers it is negative: the number of
        elements, or beyond it by a tile where the words have no sign.
        """
        if is_inexact(aval):
            return np.full((_tiles(aval), 1), _tiny(aval.dtype), self.float).view(self.dtype)
        left = math.prod(aval.shape) - _TILE * np.arange(_tiles(aval), dtype=self.dtype)
        return -(np.minimum(left, _TILE) + _TILE * self._is_unsigned(aval))[:, None]

    def _is_unsigned(self, aval: Any) -> bool:
        return bool(aval.dtype.kind == "u" and aval.dtype.itemsize == self.dtype.itemsize)

    def stack_equations(self, figures: Sequence[Any], compiled_separately: bool) -> tuple[Any, ...]:
        """Returns the values in tiles, and the mark of each tile."""
        values = [value for values, _ in figures for value in values]
        marks = np.concatenate([marks for _, marks in figures])
        more = padding(len(marks)) if compiled_separately else 0
        tiles = [self._tiles(value) for value in values]
        tiles.append(jnp.full((more, _TILE), self._pad, self.float))
        return jnp.concatenate(tiles), jnp.asarray(np.pad(marks, ((0, more), (0, 0))))

    def _tiles(self, value: Any) -> Any:
        """Returns a value's elements in tiles; their bits are taken where they are read."""
        short = -value.size % _TILE
        if not is_inexact(value):
            value = lax.bitcast_convert_type(value.astype(self.dtype), self.float)
        return lax.pad(value.astype(self.float), self._pad, [(0, short, 0)]).reshape(-1, _TILE)

    def to_rows(self, stacked: tuple[Any, ...], device: Any) -> Any:
        """Returns the rows of a body's equations."""
        tiles, marks = stacked
        bits = lax.bitcast_convert_type(tiles, self.dtype)
        return jnp.stack(self._columns(bits, marks), axis=1)

    def _columns(self, bits: Any, marks: Any) -> list[Any]:
        most, infinity = self._word(self._most), self._word(self._infinity)
        least = self._word(-self._most - 1)
        size = bits & most
        finite, zero = size < infinity, size == 0
        pad = bits == most  # the bits of a NaN that no operation makes
        nan = (size > infinity) & ~pad
        ordered = jnp.where(bits < 0, bits ^ most, bits)
        counts = (zero, nan, size == infinity, (size > 0) & (size < marks), finite)
        none = size > infinity
        columns = (
            jnp.where(none, most, ordered),
            jnp.where(none, least, ordered),
            jnp.where(zero | none, most, size),
            jnp.where(finite, size, 0),
            *(count.astype(self.dtype) for count in counts),
        )
        if self._has_integers:
            pairs = zip(self._of_integers(bits, marks), columns, strict=True)
            columns = tuple(jnp.where(marks < 0, its, own) for its, own in pairs)
        starts = (most, least, most, *[self._word(0)] * 6)
        low, high, smallest, largest, *sums = lax.reduce(columns, starts, _joined, (1,))
        rank = jnp.where(sums[1] + sums[2] > 0, most, largest)
        return [jnp.ones_like(rank), rank, low, high, smallest, largest, *sums]

    def _of_integers(self, bits: Any, marks: Any) -> tuple[Any, ...]:
        """Returns the columns of tiles of integers, which have a negative mark."""
        most, least, none = self._word(self._most), self._word(-self._most - 1), self._word(0)
        unsigned = marks < -_TILE
        beyond = lax.broadcasted_iota(self.dtype, bits.shape, 1) >= -marks - _TILE * unsigned
        ordered = bits ^ jnp.where(unsigned, least, none)
        ends = jnp.where(beyond, most, ordered), jnp.where(beyond, least, ordered)
        zero = ((bits == 0) & ~beyond).astype(self.dtype)
        return (*ends, most, none, zero, *[none] * 4)

    def merge_executions(self, before: Any, now: Any) -> Any:
        """Joins the statistics; keeps the place of the earlier execution unless it is worse."""
        a, b = ([rows[..., n] for n in _COLUMNS] for rows in (before, now))
        counts = (_RUNS, _ZEROS, _NAN, _INF, _SUBNORMAL, _FINITE)
        joined = dict(zip(counts, (_saturated(a[n], b[n]) for n in counts), strict=True))
        joined |= {n: lax.min(a[n], b[n]) for n in (_LEAST, _SMALLEST)}
        joined |= {n: lax.max(a[n], b[n]) for n in (_RANK, _MOST, _LARGEST)}
        worse = (b[_RANK] > a[_RANK])[..., None]
        when = jnp.where(worse, now[..., self.width :], before[..., self.width :])
        both = jnp.concatenate([jnp.stack([joined[n] for n in _COLUMNS], -1), when], -1)
        runs = before[..., :1], now[..., :1]
        return jnp.where(runs[1] == 0, before, jnp.where(runs[0] == 0, now, both))

    def _word(self, n: int) -> Any:
        return self.dtype.type(n)

    def statistics(self, eqn: Any, rows: Any) -> Iterator[ValueStatistics | IntegerStatistics]:
        """Joins the tiles of each result."""
        start = 0
        for index, aval in measured_results(eqn):
            tiles = rows[start : start + _tiles(aval)]
            start += len(tiles)
            joined = self._statistics if is_inexact(aval) else self._integers
            yield joined(index, aval, tiles)

    def _integers(self, index: int, aval: Any, tiles: Any) -> IntegerStatistics:
        runs, lift = int(tiles[0, _RUNS]), (self._most + 1) * self._is_unsigned(aval)
        least, most = int(tiles[:, _LEAST].min()) + lift, int(tiles[:, _MOST].max()) + lift
        zeros = int(tiles[:, _ZEROS].sum(dtype=np.int64))
        elements = runs * math.prod(aval.shape)
        return IntegerStatistics(index, str(aval.dtype), runs, elements, least, most, zeros)

    def _statistics(self, index: int, aval: Any, tiles: Any) -> ValueStatistics:
        def number(bits: int, ordered: bool = False) -> float:
            bits = bits ^ self._most if ordered and bits < 0 else bits
            return float(self._word(bits).view(self.float))

        sums = tiles.sum(0, dtype=np.int64).tolist()
        low, high = tiles.min(0).tolist(), tiles.max(0).tolist()
        runs = high[_RUNS]
        worst = tiles[tiles[:, _RANK] == high[_RANK]].tolist()
        iterations = min(row[self.width :] for row in worst)
        held = sums[_FINITE] + sums[_INF]
        kind: Any = jnp.finfo(_real_type(aval.dtype))  # type: ignore[no-untyped-call]
        return ValueStatistics(
            index,
            str(aval.dtype),
            (int(kind.minexp), int(kind.maxexp) - 1),
            float(kind.max),
            runs,
            runs * math.prod(aval.shape),
            number(low[_LEAST], True) if held else math.nan,
            number(high[_MOST], True) if held else math.nan,
            number(low[_SMALLEST]) if low[_SMALLEST] != self._most else math.nan,
            number(high[_LARGEST]) if sums[_FINITE] else math.nan,
            sums[_ZEROS],
            sums[_NAN],
            sums[_INF],
            sums[_SUBNORMAL],
            tuple(iterations),
        )


def measured_results(eqn: Any) -> Iterator[tuple[int, Any]]:
    """Yields the index and type of each result that is measured and has elements."""
    for index, var in enumerate(eqn.outvars):
        kinds = (jnp.inexact, jnp.integer, np.bool_)
        if any(is_of(var.aval, kind) for kind in kinds) and math.prod(var.aval.shape):
            yield index, var.aval


def statistics(live: Running) -> ValuesRun:
    """Runs a program once, and returns the statistics of each value.

    Raises:
        OptionError: An argument is a shape without data.
        UnavailableError: The program cannot run here.
    """
    with live.measuring("measures its values", "--values") as (closed, leaves):
        every = equations(closed)
        kinds = [aval.dtype for eqn in every.values() for _, aval in measured_results(eqn)]
        wide = any(_real_type(kind).itemsize > 4 for kind in kinds)
        probe = Statistics(wide, not all(jnp.issubdtype(kind, jnp.inexact) for kind in kinds))
        results, rows = execute(closed, probe, leaves)
    measured: dict[Path, tuple[ValueStatistics, ...]] = {}
    integers: dict[Path, tuple[IntegerStatistics, ...]] = {}
    unmeasured = [path for path, tiles in rows.items() if not tiles[0, _RUNS]]
    for path, tiles in rows.items():
        if tiles[0, _RUNS]:
            found = list(probe.statistics(every[path[-1]], tiles))
            measured[path] = tuple(one for one in found if isinstance(one, ValueStatistics))
            integers[path] = tuple(one for one in found if isinstance(one, IntegerStatistics))
    finite = all(
        bool(jnp.all(jnp.isfinite(x))) for x in results if jnp.issubdtype(x.dtype, jnp.inexact)
    )
    zeros = _operand_zeros(closed, measured)
    return ValuesRun(measured, integers, tuple(unmeasured), finite, zeros)


def _operand_zeros(
    closed: Any, measured: Mapping[Path, Sequence[ValueStatistics]]
) -> dict[Path, float | None]:
    """Returns the largest share of zeros of a float operand of each equation.

    It is None where one is unknown, such as an input's or the carry's of a loop, and where there is
    none. Literals do not count; of literals alone an equation has no share.
    """
    known, found = bodies(opened(closed)), dict[Path, float | None]()

    def follow(body: Any, path: Path) -> None:
        made: dict[int, Sequence[float | None]] = {}
        for step in open_calls(body, path, known).steps:
            name, atoms = step.eqn.primitive.name, step.eqn.invars
            operands = [
                made.get(n, [None]) if isinstance(n, int) and is_inexact(atom.aval) else []
                for n, atom in zip(step.reads, atoms, strict=True)
            ]
            shares = [share for operand in operands for share in operand]
            numbers = [share for share in shares if share is not None]
            if any(isinstance(n, int) for n in step.reads):
                found[step.path] = max(numbers) if len(numbers) == len(shares) > 0 else None
            own = {one.result: [one.zeros / one.elements] for one in measured.get(step.path, ())}
            rest = operands[0] if name in MOVES else [None]
            made.update((n, own.get(index, rest)) for index, n in enumerate(step.writes))
            for inner in evaluated_bodies(step.eqn):
                follow(inner, step.path)

    follow(closed, ())
    return found


def _tiny(dtype: Any) -> float:
    """The smallest normal number."""
    return float(jnp.finfo(_real_type(dtype)).tiny)  # type: ignore[no-untyped-call]


def _tiles(aval: Any) -> int:
    count: int = math.prod(aval.shape)
    return -(-count // _TILE)


def _unsharded(value: Any) -> Any:
    """Gathers a value whose sharding is part of its type, so that it can be cut into tiles."""
    sharding = jax.typeof(value).sharding
    if all(axis is None for axis in sharding.spec):
        return value
    whole = jax.sharding.NamedSharding(sharding.mesh, _WHOLE)
    return jax.sharding.reshard(value, whole)  # type: ignore[no-untyped-call]


def _real_type(dtype: Any) -> Any:
    return np.zeros(0, dtype).real.dtype if jnp.issubdtype(dtype, jnp.complexfloating) else dtype


def _joined(a: Sequence[Any], b: Sequence[Any]) -> tuple[Any, ...]:
    joins = (lax.min, lax.max, lax.min, lax.max, *[lax.add] * 5)
    return tuple(join(x, y) for join, x, y in zip(joins, a, b, strict=True))


def _saturated(a: Any, b: Any) -> Any:
    return lax.min(a, np.iinfo(a.dtype).max - b) + b
