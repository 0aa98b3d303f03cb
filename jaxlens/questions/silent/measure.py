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
from typing import Any

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

_SLICES = {"dynamic_slice": 1, "dynamic_update_slice": 2}  # the operands before the indices
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

    A row: their number, the index, and which axis of `_axes` it is of.
    """

    width = 3
    dtype = jnp.int32
    key = "bounds"

    def __init__(self, closed: Any) -> None:
        self.eqns = equations(closed)
        self._unasked = cache(self._is_unasked)

    def wants(self, path: Path, eqn: Any) -> bool:
        """Whether it indexes, called by the user without a mode."""
        return _indexes(eqn) and self._unasked(path)

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
        limits = jnp.array([size - window for size, window in _axes(site.eqn)], jnp.int32)
        name = site.eqn.primitive.name
        if name in _SLICES:
            given = operands[_SLICES[name] :]
        elif search := _search(site.eqn):
            given = (jnp.sum(operands[0] != 0, axis=search["axes"], dtype=jnp.int32),)
        else:
            given = operands[:1] if name == "eq" else operands[1:2]
        indices = jnp.stack([_int32(x) for x in given])
        bad = ((indices < 0) | (indices > limits)).ravel()
        if not bad.size:
            return jnp.zeros(self.width, jnp.int32)
        first = jnp.argmax(indices.ravel() * bad if _sized(site.eqn) else bad)
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
        if not any(map(_indexes, probe.eqns.values())):
            return ()
        _, rows = execute(closed, probe, leaves)
    return tuple(_outside(probe, path, row[0]) for path, row in rows.items() if row[0][0])


def _outside(probe: _Outside, path: Path, row: Any) -> IndexOutside:
    count, index, which, *iterations = map(int, row)
    eqn = probe.eqns[path[-1]]
    size, window = _axes(eqn)[which]
    name = eqn.primitive.name
    effect = "filled" if name == "gather" else "dropped"
    effect = effect if _mode(eqn) == "FILL_OR_DROP" else "clamped"
    effect = "cut" if _sized(eqn) else "zeros" if name == "eq" else effect
    plain = name == "eq" or probe.called(path)[0].startswith("segment_")
    written = index if plain or index >= 0 else index - size  # before JAX added the size
    return IndexOutside(path, effect, written, window, size, count, tuple(iterations))


def _indexes(eqn: Any) -> bool:
    name = eqn.primitive.name
    if name == "eq":
        return eqn.invars[0].aval.dtype.kind in "iuf"
    indexes = name in _SLICES or name == "gather" or name.startswith("scatter")
    return indexes or _search(eqn) is not None


def _mode(eqn: Any) -> str:
    return getattr(eqn.params.get("mode"), "name", "")


def _axes(eqn: Any) -> list[tuple[int, int]]:
    """Returns the size of the axis that each index is of, and the number of elements from there."""
    name, params, shape = eqn.primitive.name, eqn.params, eqn.invars[0].aval.shape
    if name == "eq":
        return [(eqn.invars[1].aval.size, 1)]
    if search := _search(eqn):
        return [(search["size"], 0)]
    if name == "dynamic_slice":
        return list(zip(shape, params["slice_sizes"], strict=True))
    if name == "dynamic_update_slice":
        return list(zip(shape, eqn.invars[1].aval.shape, strict=True))
    numbers = params["dimension_numbers"]
    if name == "gather":
        return [(shape[axis], params["slice_sizes"][axis]) for axis in numbers.start_index_map]
    alone = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    sizes = iter([eqn.invars[2].aval.shape[n] for n in numbers.update_window_dims])
    windows = [1 if axis in alone else next(sizes) for axis in range(len(shape))]
    if _sized(eqn):
        windows = [0] * len(shape)  # the last element found has the number of all of them
    return [(shape[axis], windows[axis]) for axis in numbers.scatter_dims_to_operand_dims]


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
