"""Measures indices that are out of bounds in a run, where nobody asked for what JAX does then.

JAX clamps, drops or fills by default, and on request (`mode="drop"`). A jaxpr does not tell one
from the other, so calls with a `mode` in their text are left out, and so is what JAX's other
functions index. `jax.nn.one_hot` indexes without a gather, by a comparison. What has a
`size` scatters to the running number of each element that it finds, whose last is how many there
are; from jax 0.12 on the search is one equation, `Nonzero`.
"""

import linecache
import re
from collections.abc import Sequence
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxlens.ir.jaxpr.arguments import function
from jaxlens.ir.jaxpr.bodies import opened
from jaxlens.ir.spans import describe
from jaxlens.questions.silent.faults import IndexOutside
from jaxlens.stages.session.running import Running
from jaxlens.taps.evaluate import Probe, Site, equations
from jaxlens.taps.execute import execute
from jaxlens.taps.pieces import called
from jaxlens.taps.primitives import Path

_AT = frozenset("get set add subtract multiply mul divide power min max apply".split())  # of x.at
_CALLED = _AT | frozenset(
    "op dynamic_slice dynamic_slice_in_dim dynamic_index_in_dim dynamic_update_slice "
    "dynamic_update_slice_in_dim dynamic_update_index_in_dim take _take take_along_axis "
    "put_along_axis segment_sum segment_prod segment_min segment_max one_hot _one_hot".split()
)
_SIZED = frozenset(
    "nonzero flatnonzero argwhere where unique unique_values union1d setdiff1d setxor1d".split()
)
_ONE_HOT = ("one_hot", "_one_hot")  # in which a comparison indexes
_WRAPPER = "reraise_with_filtered_traceback"  # a frame of JAX around that of its function
_ASKED = re.compile(r"\b(mode|wrap_negative_indices|allow_negative_indices)\s*=")


class _Outside(Probe):
    """Measures the number of indices out of bounds, and the first of them.

    A row: their number, the index, and which axis of `_Indexing` it is of.
    """

    width = 3
    dtype = jnp.int32
    key = "bounds"

    def __init__(self, closed: Any) -> None:
        self.eqns = equations(closed)
        self._unasked = cache(self._is_unasked)

    def wants(self, path: Path, eqn: Any) -> bool:
        """Whether it indexes, called by the user without a mode."""
        return bool(_indexing(eqn).axes) and self._unasked(path)

    def called(self, path: Path) -> tuple[str, str]:
        """Returns the indexing function that the user called, and its lines; "" for none."""
        if any("transpose(" in str(self.eqns[step].source_info.name_stack) for step in path):
            return "", ""  # the forward pass has the same indices
        for n, step in enumerate(path):
            eqn = self.eqns[step]
            body = called(eqn)
            own = body is not None and not function(opened(body))
            if own or n == len(path) - 1:
                break
        name, text = _called(eqn)
        if own and name not in _CALLED:
            name = str(eqn.params.get("name", ""))
        return (name, text) if name in _CALLED | _SIZED else ("", "")

    def _is_unasked(self, path: Path) -> bool:
        """Whether the user's call indexes, and nothing in its lines asks for what JAX does."""
        called, text = self.called(path)
        eqn = self.eqns[path[-1]]
        if eqn.primitive.name == "eq" and called not in _ONE_HOT:
            return False
        if called in _SIZED:
            return _sized(eqn)
        # Without source, a mode that can be asked for may have been.
        may_ask = _mode(eqn) in ("CLIP", "FILL_OR_DROP")
        return bool(called) and not (_ASKED.search(text) if text else may_ask)

    def measure(self, site: Site, operands: Sequence[Any], results: Sequence[Any]) -> Any:
        """Returns the first elements of the row of one execution."""
        indexing = _indexing(site.eqn)
        limits = jnp.array([size - window for size, window in indexing.axes], jnp.int32)
        given = operands[indexing.operands]
        if search := _search(site.eqn):
            given = [jnp.sum(operands[0] != 0, axis=search["axes"], dtype=jnp.int32)]
        indices = jnp.stack([_int32(x) for x in given])
        bad = ((indices < 0) | (indices > limits)).ravel()
        if not bad.size:
            return jnp.zeros(self.width, jnp.int32)
        first = jnp.argmax(indices.ravel() * bad if indexing.effect == "cut" else bad)
        row = [jnp.sum(bad), indices.ravel()[first], first % len(limits)]
        return jnp.stack([jnp.asarray(x, jnp.int32) for x in row])

    def merge_executions(self, before: Any, now: Any) -> Any:
        """Keeps the earlier execution, and adds the numbers."""
        kept = super().merge_executions(before, now)
        return kept.at[..., 0].set(before[..., 0] + now[..., 0])


def indices_outside(live: Running) -> tuple[IndexOutside, ...]:
    """Runs a program once, and returns the indices that were out of bounds, in program order.

    Raises:
        OptionError: An argument is a shape without data.
        UnavailableError: The program cannot run here.
    """
    with live.measuring("looks at its indices", "--silent") as (closed, leaves):
        probe = _Outside(closed)
        if not any(_indexing(eqn).axes for eqn in probe.eqns.values()):
            return ()
        _, rows = execute(closed, probe, leaves)
    return tuple(_outside(probe, path, row[0]) for path, row in rows.items() if row[0][0])


def _outside(probe: _Outside, path: Path, row: Any) -> IndexOutside:
    count, index, which, *iterations = map(int, row)
    eqn = probe.eqns[path[-1]]
    indexing = _indexing(eqn)
    size, window = indexing.axes[which]
    plain = indexing.effect == "zeros" or probe.called(path)[0].startswith("segment_")
    written = index if plain or index >= 0 else index - size  # before JAX added the size
    return IndexOutside(path, indexing.effect, written, window, size, count, tuple(iterations))


class _Indexing(NamedTuple):
    """How an equation indexes.

    Attributes:
        operands: Those that have the indices.
        axes: Of each index the size of its axis, and the number of elements from there; [] for an
            equation that does not index.
        effect: What JAX does with an index that is out of bounds, as in `IndexOutside`.
    """

    operands: slice
    axes: list[tuple[int, int]]
    effect: str = "clamped"


def _indexing(eqn: Any) -> _Indexing:
    name, params, types = eqn.primitive.name, eqn.params, [atom.aval for atom in eqn.invars]
    numbers = params.get("dimension_numbers")
    match name:
        case "eq" if types[0].dtype.kind in "iuf":
            return _Indexing(slice(1), [(types[1].size, 1)], "zeros")
        case "dynamic_slice":
            axes = zip(types[0].shape, params["slice_sizes"], strict=True)
            return _Indexing(slice(1, None), list(axes))
        case "dynamic_update_slice":
            return _Indexing(slice(2, None), list(zip(types[0].shape, types[1].shape, strict=True)))
        case "gather":
            indexed, windows, effect = numbers.start_index_map, params["slice_sizes"], "filled"
        case _ if name.startswith("scatter"):
            indexed, effect = numbers.scatter_dims_to_operand_dims, "dropped"
            alone = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
            sizes = iter([types[2].shape[n] for n in numbers.update_window_dims])
            windows = [1 if n in alone else next(sizes) for n in range(len(types[0].shape))]
        case _:
            search = _search(eqn)
            return _Indexing(slice(1), [(search["size"], 0)] if search else [], "cut")
    if _sized(eqn):  # the last element found has the number of all of them
        return _Indexing(slice(1, 2), [(types[0].shape[n], 0) for n in indexed], "cut")
    effect = effect if _mode(eqn) == "FILL_OR_DROP" else "clamped"
    return _Indexing(slice(1, 2), [(types[0].shape[n], windows[n]) for n in indexed], effect)


def _mode(eqn: Any) -> str:
    return getattr(eqn.params.get("mode"), "name", "")


def _sized(eqn: Any) -> bool:
    """Whether it keeps what a function of JAX's with a `size` finds."""
    keeps = eqn.primitive.name == "scatter-add" or _search(eqn) is not None
    return keeps and _called(eqn)[0] in _SIZED


def _search(eqn: Any) -> dict[str, Any] | None:
    """Returns the parameters of `Nonzero`; None for another equation."""
    operation = eqn.params.get("_prim")
    return operation.params if type(operation).__name__ == "Nonzero" else None


def _int32(x: Any) -> Any:
    """Converts indices, with those that do not fit at the end of the range."""
    value, end = jnp.asarray(x), 2**31 - 1
    if value.dtype.itemsize < 4 or value.dtype == jnp.int32:
        return value.astype(jnp.int32)
    low = 0 if jnp.issubdtype(value.dtype, jnp.unsignedinteger) else -end
    return jnp.clip(value, low, end).astype(jnp.int32)


def _called(eqn: Any) -> tuple[str, str]:
    """Returns the function of JAX that a user or a library called, and the lines of the call."""
    traceback, called = eqn.source_info.traceback, ""
    for code, offset in zip(*traceback.raw_frames(), strict=True) if traceback else ():
        if describe(code.co_filename).own:
            called = called if code.co_name == _WRAPPER else code.co_name
            continue
        line, end, *_ = next(islice(code.co_positions(), offset // 2, None), (None, None))
        numbers = range(line or 0, (end or line or 0) + 1)
        return called, "".join(linecache.getline(code.co_filename, n) for n in numbers)
    return "", ""
