"""`checkpoint`: keep the arguments, and compute the rest again when the derivative needs it.

Reverse mode keeps what the forward pass computed until the backward pass has used it. A function
under `checkpoint` is split otherwise: the half that runs now keeps nothing but its arguments, and
the linear half begins by computing it all again. Time is paid for memory: a chain of n steps in
sqrt(n) pieces keeps sqrt(n) values for one more forward pass. JAX's `policy`, which keeps some
values all the same, is not offered.

After "Algorithm 799: revolve" (Griewank and Walther, 2000) and "Control autodiff's saved values"
(docs.jax.dev).
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.kernel.interpreter import Primitive, interpreting
from jaxlens.core.kernel.jaxpr import ClosedJaxpr, Jaxpr, as_function, eval_jaxpr
from jaxlens.core.kernel.trace import trace
from jaxlens.core.kernel.types import ShapedArray
from jaxlens.core.kernel.vjp import Partial
from jaxlens.core.transforms.calls import call_rules, first_results, record_rest, transformed
from jaxlens.core.transforms.flags import Flags, split
from jaxlens.core.transforms.jaxprs import memoized, partial_jaxpr, traced, transpose_jaxpr, used
from jaxlens.core.transforms.trees import tree_flatten

remat_p = Primitive("remat2", multiple_results=True)


def checkpoint(f: Callable[..., Any] | None = None, *, prevent_cse: bool = True) -> Any:
    """A function whose derivative keeps its arguments only, and computes the rest again.

    Args:
        f: The function. Left out in a decorator with options.
        prevent_cse: Whether to hide from XLA that it computes the same twice; a scan needs it not.
    """
    if f is None:
        return partial(checkpoint, prevent_cse=prevent_cse)

    @wraps(f)
    def remat(*args: Any, **kwargs: Any) -> Any:
        body = traced(f, args, kwargs)
        leaves = tree_flatten((args, kwargs))[0]
        params = {"differentiated": False, "prevent_cse": prevent_cse}
        results = remat_p.bind(*body.consts, *leaves, jaxpr=body.jaxpr, **params)
        return body.out_tree.unflatten(results)

    return remat


@remat_p.rule("abstract")
def _(*avals: ShapedArray, jaxpr: ClosedJaxpr, **_: Any) -> list[ShapedArray]:
    return jaxpr.out_avals


@remat_p.rule("lower")
def _(ctx: Any, *operands: Any, jaxpr: ClosedJaxpr, differentiated: bool, prevent_cse: bool) -> Any:
    if differentiated and prevent_cse and operands:
        operands = tuple(hlo.OptimizationBarrierOp(list(operands)).results)
    return ctx.inline(jaxpr, *operands)


def _transposed(
    closed: ClosedJaxpr, linear: Flags, nonzero: Flags, force: Any = None
) -> tuple[ClosedJaxpr, list[bool]]:
    """The transpose: first what is not linear, which is computed again."""
    now, later, _ = partial_jaxpr(closed, linear, [True] * len(nonzero))

    def apart(*args: Any) -> list[Any]:
        fixed, moving = split(linear, args)
        return as_function(later)(*as_function(now)(*fixed), *moving)

    return transpose_jaxpr(trace(apart, closed.in_avals), linear, nonzero, force)


call_rules(remat_p, transposed=_transposed)


@memoized
def _again(closed: ClosedJaxpr, flags: Flags) -> tuple[ClosedJaxpr, Flags]:
    """What computes these results, and which parameters it needs."""
    results = split(flags, closed.jaxpr.outvars)[1]
    eqns, needed = used(closed.eqns, results)
    reads = tuple(var in needed for var in closed.jaxpr.invars)
    params = split(reads, closed.jaxpr.invars)[1]
    return ClosedJaxpr(Jaxpr([], params, results, eqns), []), reads


@remat_p.rule("partial")
def _(interpreter: Partial, args: Any, params: dict[str, Any]) -> list[Any]:
    """Computes what is known now, and records all of it again for what is not."""
    unknown = tuple(map(interpreter.unknown, args))
    now, new, flags = transformed(params["jaxpr"], partial_jaxpr, unknown)
    now = first_results(now, flags.count(False))
    with interpreting(interpreter.parent):
        done = eval_jaxpr(now.jaxpr, [], *new, *split(unknown, args)[0])
    later, reads = _again(params["jaxpr"], tuple(flags))
    own = params | {"jaxpr": later, "differentiated": True}
    return record_rest(interpreter, remat_p, flags, done, split(reads, args)[1], own)
