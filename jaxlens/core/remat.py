"""`checkpoint`: keep the arguments, and compute the rest again when the derivative needs it.

Reverse mode keeps what the forward pass computed until the backward pass has used it. A function
under `checkpoint` is split otherwise: the half that runs now keeps nothing but its arguments, and
the linear half begins by computing it all again. Time is paid for memory: a chain of n steps in
sqrt(n) pieces keeps sqrt(n) values for one more forward pass. JAX's `policy`, which keeps some
values all the same, is not offered.

After "Algorithm 799: revolve" (Griewank and Walther, 2000) and "Control autodiff's saved values"
(docs.jax.dev).
"""

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.avals import ShapedArray
from jaxlens.core.batching import batch_jaxpr
from jaxlens.core.control.branches import fronts, nonzero, transformed, with_zeros
from jaxlens.core.control.loops import Flags, cut, only
from jaxlens.core.custom import closing, opening
from jaxlens.core.forward import jvp_jaxpr
from jaxlens.core.jaxprs import ClosedJaxpr, Jaxpr, Var, hoisted, kept, merge, split
from jaxlens.core.reverse import Partial, backward_pass, partial_jaxpr
from jaxlens.core.staging import Staging, as_function, eval_jaxpr, trace, traced
from jaxlens.core.tracers import Linear, Primitive, interpreting
from jaxlens.core.trees import tree_flatten

remat_p = Primitive("remat2", multiple_results=True)


def checkpoint(
    f: Callable[..., Any] | None = None,
    *,
    prevent_cse: bool = True,
    static_argnums: int | Sequence[int] = (),
) -> Any:
    """A function whose derivative keeps its arguments only, and computes the rest again.

    Args:
        f: The function. Left out in a decorator with options.
        prevent_cse: Whether to hide from XLA that it computes the same twice; a scan needs it not.
        static_argnums: Arguments that are not traced.
    """
    if f is None:
        return partial(checkpoint, prevent_cse=prevent_cse, static_argnums=static_argnums)
    places = (static_argnums,) if isinstance(static_argnums, int) else static_argnums
    opened = opening(f)

    @wraps(f)
    def remat(*args: Any, **kwargs: Any) -> Any:
        given = closing(getattr(f, "__name__", "f"), args, places)
        body = traced(opened, given, kwargs)
        leaves = tree_flatten((tuple(given), kwargs))[0]
        results = remat_p.bind(
            *body.consts, *leaves, jaxpr=body.jaxpr, differentiated=False, prevent_cse=prevent_cse
        )
        return body.out_tree.unflatten(results)

    return remat


@remat_p.rule("abstract")
def _(*avals: ShapedArray, jaxpr: ClosedJaxpr, **_: Any) -> list[ShapedArray]:
    return jaxpr.out_avals


@remat_p.rule("lower")
def _(
    ctx: Any, *operands: Any, jaxpr: ClosedJaxpr, differentiated: bool, prevent_cse: bool
) -> list[Any]:
    if differentiated and prevent_cse and operands:
        operands = tuple(hlo.OptimizationBarrierOp(list(operands)).results)
    found: list[Any] = ctx.inline(jaxpr, *operands)
    return found


@remat_p.rule("jvp")
def _(primals: Any, tangents: Any, *, jaxpr: ClosedJaxpr, **params: Any) -> Any:
    has = nonzero(tangents)
    (both,), new, flags = transformed((jaxpr,), jvp_jaxpr, has)
    results = remat_p.bind(*new, *primals, *split(has, tangents)[1], jaxpr=both, **params)
    values, moved = cut(results, len(jaxpr.out_avals))
    return values, with_zeros(jaxpr.out_avals, flags, moved)


@remat_p.rule("batch")
def _(size: int, args: Any, dims: Any, *, jaxpr: ClosedJaxpr, **params: Any) -> Any:
    batched = tuple(dim is not None for dim in dims)
    (whole,), new, flags = transformed((jaxpr,), batch_jaxpr, size, batched)
    results = remat_p.bind(*new, *fronts(size, args, dims), jaxpr=whole, **params)
    return results, [0 if has else None for has in flags]


@kept
def _partial_of(closed: ClosedJaxpr, unknown: Flags) -> tuple[Any, ...]:
    """What can be computed now; all of it again for what must wait; which parameters that needs."""
    known, _, flags = partial_jaxpr(closed, unknown)
    now, new = hoisted(known)
    now = only(now, now.jaxpr.outvars[: flags.count(False)])
    later = only(closed, split(flags, closed.jaxpr.outvars)[1])
    atoms = [*later.jaxpr.outvars, *(atom for eqn in later.eqns for atom in eqn.invars)]
    read = {atom for atom in atoms if isinstance(atom, Var)}
    needed = [var in read or wait for var, wait in zip(later.jaxpr.invars, unknown, strict=True)]
    params = split(needed, later.jaxpr.invars)[1]
    later = ClosedJaxpr(Jaxpr([], params, later.jaxpr.outvars, later.eqns), [])
    return now, new, later, needed, flags


@remat_p.rule("partial")
def _(interpreter: Partial, args: Any, params: dict[str, Any]) -> list[Any]:
    unknown = tuple(interpreter.unknown(x) for x in args)
    now, new, later, needed, flags = _partial_of(params["jaxpr"], unknown)
    with interpreting(interpreter.parent):
        results = eval_jaxpr(now.jaxpr, [], *new, *split(unknown, args)[0])
    own = {"jaxpr": later, "differentiated": True}
    again = split(needed, args)[1]
    rest = Staging.process(interpreter, remat_p, again, params | own) if any(flags) else []
    return merge(flags, results, rest)


@kept
def _transposed_of(closed: ClosedJaxpr, linear: Flags, has: Flags) -> tuple[Any, ...]:
    """The transpose, which computes again what it needs; and which parameters get a cotangent."""
    known, later, _ = partial_jaxpr(closed, linear, [True] * len(has))
    others, moving = split(linear, closed.in_avals)
    flags: list[bool] = []

    def back(*args: Any) -> list[Any]:
        residuals = as_function(known)(*args[: len(others)])
        cts = with_zeros(closed.out_avals, has, args[len(others) :])
        found = backward_pass(later.jaxpr, [], [*residuals, *map(Linear, moving)], cts)
        flags[:] = nonzero(found)
        return split(flags, found)[1]

    whole = trace(back, [*others, *split(has, closed.out_avals)[1]])
    return *hoisted(whole), flags


@remat_p.rule("transpose")
def _(cts: Any, *args: Any, jaxpr: ClosedJaxpr, **params: Any) -> list[Any]:
    linear = tuple(type(x) is Linear for x in args)
    has = nonzero(cts)
    back, new, flags = _transposed_of(jaxpr, linear, has)
    known, moving = split(linear, args)[0], split(has, cts)[1]
    found = remat_p.bind(*new, *known, *moving, jaxpr=back, **params | {"differentiated": True})
    given = merge(flags, [None] * flags.count(False), found)
    return merge(linear, [None] * len(known), given)
