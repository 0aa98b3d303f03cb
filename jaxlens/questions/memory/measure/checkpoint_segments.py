"""Evaluates a jaxpr in segments, each under `jax.checkpoint`, as a user would layer by layer.

Peak memory is least when the number of segments is about the square root of the number of matrix
products (Chen et al., "Training deep nets with sublinear memory cost", 2016). Segments are cut
where the fewest bytes are live.
"""

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import jax

from jaxlens import compat

_LITERAL = compat.extend("core", "Literal")
_AS_FUNCTION = compat.extend("core", "jaxpr_as_fun")
_PRODUCTS = frozenset({"dot_general", "conv_general_dilated", "scan", "while"})
_MOST = 32


def checkpointed(closed: Any, args: Sequence[Any]) -> list[Any]:
    """Evaluates a jaxpr with each of its segments checkpointed, and returns its results.

    Args:
        closed: A closed jaxpr.
        args: Its arguments, arrays or tracers.
    """
    jaxpr = closed.jaxpr
    cuts = [0, *_cuts(jaxpr), len(jaxpr.eqns)]
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    values.update(zip(jaxpr.invars, args, strict=True))
    last = _last_reads(jaxpr)
    for start, stop in pairwise(cuts):
        part = _segment(jaxpr, start, stop, last)
        run: Any = jax.checkpoint(_AS_FUNCTION(type(closed)(part, ())))
        outs = run(*(values[var] for var in part.invars))
        values.update(zip(part.outvars, outs, strict=True))
    return [var.val if _literal(var) else values[var] for var in jaxpr.outvars]


def _literal(var: Any) -> bool:
    return isinstance(var, _LITERAL)


def _last_reads(jaxpr: Any) -> dict[Any, int]:
    """Returns the index of the last eqn that reads each var; len(eqns) for results."""
    last = {var: n for n, eqn in enumerate(jaxpr.eqns) for var in eqn.invars if not _literal(var)}
    last.update((var, len(jaxpr.eqns)) for var in jaxpr.outvars if not _literal(var))
    return last


def _segment(jaxpr: Any, start: int, stop: int, last: dict[Any, int]) -> Any:
    """Returns eqns start..stop as a jaxpr of their own.

    Its invars are the vars that the eqns read and do not define, its outvars those that later
    eqns or the results read.
    """
    eqns = jaxpr.eqns[start:stop]
    own = {var for eqn in eqns for var in eqn.outvars}
    read = dict.fromkeys(v for e in eqns for v in e.invars if not _literal(v) and v not in own)
    outvars = [v for e in eqns for v in e.outvars if last.get(v, -1) >= stop]
    debug_info = jaxpr.debug_info.with_unknown_names()
    return jaxpr.replace(
        constvars=[], invars=list(read), outvars=outvars, eqns=eqns, debug_info=debug_info
    )


def _cuts(jaxpr: Any) -> list[int]:
    """Returns the eqn indices to cut at: where the fewest bytes are live, near an even split.

    For p products in k parts, part i ideally ends at product i*p/k. The cut may move half a part
    either way, to the index with the fewest live bytes, of several the nearest: between equal
    layers. For example, with 9 products in 3 parts the first cut lies between products[2] and
    products[4].
    """
    products = [n for n, eqn in enumerate(jaxpr.eqns) if _is_product(eqn)]
    parts = min(max(2, round(math.sqrt(len(products)))), _MOST)
    if len(products) < 2 * parts - 1:
        return []
    crossing = _crossing(jaxpr)
    near = len(products) / parts / 2
    cuts: list[int] = []
    for part in range(1, parts):
        middle = part * len(products) / parts
        low = products[max(math.ceil(middle - near), 0)]
        high = products[min(math.floor(middle + near), len(products) - 1)]
        ideal = products[round(middle)]
        near_ideal = sorted(range(low + 1, high + 1), key=lambda n: abs(n - ideal))
        cut = min(near_ideal, key=lambda n: crossing[n], default=low)
        if cut > (cuts[-1] if cuts else 0):
            cuts.append(cut)
    return cuts


def _is_product(eqn: Any) -> bool:
    """Whether an eqn is a matrix product or a loop, or calls a jaxpr that contains one."""
    called = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
    inner = getattr(getattr(called, "jaxpr", called), "eqns", ())
    return eqn.primitive.name in _PRODUCTS or any(e.primitive.name in _PRODUCTS for e in inner)


def _crossing(jaxpr: Any) -> list[int]:
    """Returns the bytes live at each index: defined by an earlier eqn, read by a later one.

    A value adds its bytes after its eqn and subtracts them after its last read, so one running
    sum over these changes gives all indices.
    """
    change = [0] * (len(jaxpr.eqns) + 2)
    last = _last_reads(jaxpr)
    for n, eqn in enumerate(jaxpr.eqns):
        for var in eqn.outvars:
            if last.get(var, -1) > n:
                size = math.prod(var.aval.shape) * getattr(var.aval.dtype, "itemsize", 8)
                change[n + 1] += size
                change[last[var] + 1] -= size
    return list(accumulate(change))
