"""Measures what every float value of a run held: range, zeros, NaN, the worst iteration.

Values are cut into tiles of one length, so that those of a body are measured by one kernel, however
many there are: what a measurement costs is its compile. A pass over the bits of a tile counts and
compares integers, which XLA vectorises. Tiles are joined by NumPy after the run.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxlens.compat.arrays import is_ref
from jaxlens.ir.jaxpr.bodies import bodies, opened
from jaxlens.questions.values.statistics import ValuesRun, ValueStatistics
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

_TILE = 1024
_WHOLE: Any = jax.sharding.PartitionSpec()  # type: ignore[no-untyped-call]
_MOVES = frozenset("broadcast_in_dim copy pvary rev reshape squeeze transpose".split())
# The columns of a row. Floats are stored by their bits; LEAST and MOST in the order of integers.
_COLUMNS = range(11)
(_RUNS, _RANK, _LEAST, _MOST, _SMALLEST, _LARGEST, _ZEROS, _NAN, _INF, _SUBNORMAL,
 _FINITE) = _COLUMNS  # fmt: skip


class Statistics(Probe):
    """Measures every execution of every equation with float results.

    A row for each tile.

    Args:
        wide: Whether the program has float64.
    """

    width = len(_COLUMNS)

    def __init__(self, wide: bool) -> None:
        self.key = "statistics", wide
        self.dtype = np.dtype(np.int64 if wide else np.int32)
        self.float: Any = np.dtype(np.float64 if wide else np.float32)
        self._most = int(np.iinfo(self.dtype).max)
        self._infinity = int(np.array(np.inf, self.float).view(self.dtype))
        self._pad = self._word(self._most).view(self.float)

    def wants(self, path: Path, eqn: Any) -> bool:
        """Whether an equation has float results of its own, and is measured as a whole."""
        if eqn.primitive.name in _MOVES or evaluated_bodies(eqn):
            return False
        return any(True for _ in float_results(eqn))

    def rows(self, eqn: Any) -> int:
        """Number of tiles of its float results."""
        return sum(_tiles(aval) for _, aval in float_results(eqn))

    def measure(self, site: Site, operands: Sequence[Any], results: Sequence[Any]) -> Any:
        """Returns the float results, and the smallest normal number of each tile of theirs."""
        values = []
        for index, _ in float_results(site.eqn):
            value = _unsharded(results[index])
            # The barrier keeps the equations apart from the copy, which would compute them again.
            value = lax.optimization_barrier(value)  # type: ignore[no-untyped-call]
            values.append((lax.abs(value) if jnp.iscomplexobj(value) else value).ravel())
        tiny = [
            np.full((_tiles(aval), 1), _tiny(aval.dtype), self.float)
            for _, aval in float_results(site.eqn)
        ]
        return values, np.concatenate(tiny).view(self.dtype)

    def stack_equations(self, figures: Sequence[Any], compiled_separately: bool) -> tuple[Any, ...]:
        """Returns the values in tiles, and the smallest normal number of each tile."""
        values = [value for values, _ in figures for value in values]
        tiny = np.concatenate([tiny for _, tiny in figures])
        more = padding(len(tiny)) if compiled_separately else 0
        tiles = [self._tiles(value) for value in values]
        tiles.append(jnp.full((more, _TILE), self._pad, self.float))
        return jnp.concatenate(tiles), jnp.asarray(np.pad(tiny, ((0, more), (0, 0))))

    def _tiles(self, value: Any) -> Any:
        """Returns a value's elements in tiles; their bits are taken where they are read."""
        short = -value.size % _TILE
        return lax.pad(value.astype(self.float), self._pad, [(0, short, 0)]).reshape(-1, _TILE)

    def to_rows(self, stacked: tuple[Any, ...], site: Site) -> Any:
        """Returns the rows of a body's equations."""
        tiles, tiny = stacked
        bits = lax.bitcast_convert_type(tiles, self.dtype)
        return jnp.stack(self._columns(bits, tiny), axis=1)

    def _columns(self, bits: Any, tiny: Any) -> list[Any]:
        most, infinity = self._word(self._most), self._word(self._infinity)
        least = self._word(-self._most - 1)
        size = bits & most
        finite, zero = size < infinity, size == 0
        pad = bits == most  # the bits of a NaN that no operation makes
        nan = (size > infinity) & ~pad
        ordered = jnp.where(bits < 0, bits ^ most, bits)
        counts = (zero, nan, size == infinity, (size > 0) & (size < tiny), finite)
        none = size > infinity
        columns = (
            jnp.where(none, most, ordered),
            jnp.where(none, least, ordered),
            jnp.where(zero | none, most, size),
            jnp.where(finite, size, 0),
            *(count.astype(self.dtype) for count in counts),
        )
        starts = (most, least, most, *[self._word(0)] * 6)
        low, high, smallest, largest, *sums = lax.reduce(columns, starts, _joined, (1,))
        rank = jnp.where(sums[1] + sums[2] > 0, most, largest)
        return [jnp.ones_like(rank), rank, low, high, smallest, largest, *sums]

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

    def statistics(self, eqn: Any, rows: Any) -> Iterator[ValueStatistics]:
        """Joins the tiles of each float result."""
        start = 0
        for index, aval in float_results(eqn):
            tiles = rows[start : start + _tiles(aval)]
            start += len(tiles)
            yield self._statistics(index, aval, tiles)

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


def float_results(eqn: Any) -> Iterator[tuple[int, Any]]:
    """Yields the index and type of each float result that has elements; a ref has none."""
    for index, var in enumerate(eqn.outvars):
        if _is_float(var.aval) and math.prod(var.aval.shape):
            yield index, var.aval


def _is_float(aval: Any) -> bool:
    dtype = getattr(aval, "dtype", np.int32)  # a token has none
    return not is_ref(aval) and bool(jnp.issubdtype(dtype, jnp.inexact))


def statistics(live: Running) -> ValuesRun:
    """Runs a program once, and returns the statistics of each float value.

    Raises:
        OptionError: An argument is a shape without data.
        UnavailableError: The program cannot run here.
    """
    with live.measuring("measures its values", "--values") as (closed, leaves):
        every = equations(closed)
        kinds = [aval.dtype for eqn in every.values() for _, aval in float_results(eqn)]
        wide = any(_real_type(kind).itemsize > 4 for kind in kinds)
        probe = Statistics(wide)
        results, rows = execute(closed, probe, leaves)
    measured, unmeasured = {}, []
    for path, tiles in rows.items():
        if not tiles[0, _RUNS]:
            unmeasured.append(path)
        else:
            measured[path] = tuple(probe.statistics(every[path[-1]], tiles))
    finite = all(
        bool(jnp.all(jnp.isfinite(x))) for x in results if jnp.issubdtype(x.dtype, jnp.inexact)
    )
    return ValuesRun(measured, tuple(unmeasured), finite, _operand_zeros(closed, measured))


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
                made.get(n, [None]) if isinstance(n, int) and _is_float(atom.aval) else []
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
