"""`fori_loop`: a loop over a range of integers.

Where the bounds are known while tracing it is a scan, so that reverse mode works; where they are
numbers of the program it is a while loop. In both the index is carried, and the body counts it up.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from jaxlens.core.avals import ShapedArray, promote
from jaxlens.core.control.loops import converted, cut, loop_body, while_p
from jaxlens.core.control.scans import scan_p
from jaxlens.core.jaxprs import ClosedJaxpr, kept
from jaxlens.core.primitives.elementwise import add_p, lt_p
from jaxlens.core.staging import as_function, aval_of, trace
from jaxlens.core.tracers import Tracer


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init: Any) -> Any:
    """`for i in range(lower, upper): value = body_fun(i, value)`.

    A scan if both bounds are Python integers, so that reverse mode works; else a while loop.

    Args:
        lower: The first i.
        upper: One past the last.
        body_fun: `(i, value) -> value`, with the same containers and types.
        init: The first value: a pytree of arrays.
    """
    types = [aval_of(bound) for bound in (lower, upper)]
    for name, aval in zip(("lower", "upper"), types, strict=True):
        if aval.shape or aval.dtype.kind not in "iu":
            raise TypeError(
                f"fori_loop: `{name}` must be an integer scalar, got {aval.str_short()}."
            )
    lower, upper = (converted(bound, promote(*types)[0]) for bound in (lower, upper))
    index = aval_of(lower)
    body, first = loop_body("fori_loop", body_fun, init, before=(index,))
    count = len(body.consts)
    if isinstance(lower, Tracer) or isinstance(upper, Tracer):
        carried = [lower, upper, *first]
        results = while_p.bind(
            *body.consts, *carried,
            cond_jaxpr=_below(tuple(aval_of(x) for x in carried)), cond_nconsts=0,
            body_jaxpr=_counting(body.jaxpr, count, aval_of(upper)), body_nconsts=count,
        )  # fmt: skip
        return body.out_tree.unflatten(results[2:])
    results = scan_p.bind(
        *body.consts, lower, *first, jaxpr=_counting(body.jaxpr, count, None),
        length=max(int(upper) - int(lower), 0),
        num_consts=count, num_carry=1 + len(first), reverse=False, unroll=1,
    )  # fmt: skip
    return body.out_tree.unflatten(results[1:])


@kept
def _counting(closed: ClosedJaxpr, count: int, upper: ShapedArray | None) -> ClosedJaxpr:
    """The body of a fori_loop, which also counts; with a type for the upper bound, for a while.

    Args:
        closed: The body, of its constants, the index and the carry.
        count: How many constants it has.
        upper: The type of the bound, which is carried behind the index.
    """
    types = closed.in_avals
    index, bound = types[count], [] if upper is None else [upper]
    one = 1 if index.weak_type else np.ones((), index.dtype)[()]

    def turn(*args: Any) -> list[Any]:
        consts, (i,), bounds, carry = cut(args, count, 1, len(bound))
        return [add_p.bind(i, one), *bounds, *as_function(closed)(*consts, i, *carry)]

    return trace(turn, [*types[: count + 1], *bound, *types[count + 1 :]])


@cache
def _below(types: tuple[ShapedArray, ...]) -> ClosedJaxpr:
    """Whether the first is less than the second."""
    return trace(lambda i, upper, *_: [lt_p.bind(i, upper)], types)
