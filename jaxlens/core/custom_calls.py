"""Calls that carry a rule of the user's in place of the rules of what they call.

A rule is a function of flat lists. The jvp rule of a `custom_jvp_call` is the user's. That of a
`custom_vjp_call` runs the user's forward pass, and sends the tangents through a placeholder,
`custom_lin`, that no one can compute and only transposition takes apart: there the user's backward
pass is put. Under vmap the rules are batched with the call.

After "Custom derivative rules for JAX-transformable Python functions" (docs.jax.dev).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from jaxlens.core.avals import ShapedArray, float0, tangent_aval
from jaxlens.core.batching import Dim, batch_flat, batch_jaxpr, to_front
from jaxlens.core.calls import Flags, cut, fronts, nonzero, same_type, with_zeros
from jaxlens.core.forward import instantiate
from jaxlens.core.jaxprs import ClosedJaxpr, hoisted, kept, merge, split
from jaxlens.core.primitives.shapes import reduce_sum
from jaxlens.core.reverse import Partial
from jaxlens.core.staging import as_function, aval_of
from jaxlens.core.tracers import Primitive, interpreting, mapped_axis
from jaxlens.core.trees import TreeDef

custom_jvp_call_p = Primitive("custom_jvp_call", multiple_results=True)
custom_vjp_call_p = Primitive("custom_vjp_call", multiple_results=True)
custom_lin_p = Primitive("custom_lin", multiple_results=True)
Residuals = tuple[list[Any], TreeDef]


def _inline(ctx: Any, *operands: Any, call_jaxpr: ClosedJaxpr, **_: Any) -> list[Any]:
    found: list[Any] = ctx.inline(call_jaxpr, *operands)
    return found


def _inside(interpreter: Partial, args: Any, params: dict[str, Any]) -> list[Any]:
    """Where only part is known, differentiation is done already, and the rule not needed."""
    with interpreting(interpreter):
        return as_function(params["call_jaxpr"])(*args)


for call in (custom_jvp_call_p, custom_vjp_call_p):
    call.abstract = lambda *_, call_jaxpr, **__: call_jaxpr.out_avals
    call.lower = _inline
    call.partial = _inside


def _no_closure(tangents: Sequence[Any], name: str) -> None:
    if any(nonzero(tangents)):
        raise TypeError(
            f"{name} is differentiated by a value that it takes from outside, for which its rule "
            f"says nothing: make that value an argument of {name} and of its rule."
        )


@custom_jvp_call_p.rule("jvp")
def _(primals: Any, tangents: Any, *, name: str, jvp: Any, num_consts: int, **_: Any) -> Any:
    _no_closure(tangents[:num_consts], name)
    return jvp(primals[num_consts:], [instantiate(t) for t in tangents[num_consts:]])


@custom_vjp_call_p.rule("jvp")
def _(
    primals: Any, tangents: Any, *, name: str, fwd: Any, bwd: Any, num_consts: int, **_: Any
) -> Any:
    _no_closure(tangents[:num_consts], name)
    results, (residuals, tree) = fwd(primals[num_consts:])
    has = nonzero(tangents[num_consts:])
    moving = split(has, tangents[num_consts:])[1]
    avals = tuple(tangent_aval(aval_of(x)) for x in results)
    real = [aval.dtype != float0 for aval in avals]
    out = custom_lin_p.bind(
        *residuals, *moving, bwd=bwd, in_zeros=tuple(not each for each in has),
        num_res=len(residuals), out_avals=avals, tree=tree,
    )  # fmt: skip
    return results, with_zeros(avals, real, out)


@custom_lin_p.rule("abstract")
def _(*_: ShapedArray, out_avals: tuple[ShapedArray, ...], **__: Any) -> list[ShapedArray]:
    return [aval for aval in out_avals if aval.dtype != float0]


def _one_way(*_: Any, **__: Any) -> NoReturn:
    raise TypeError(
        "can't apply forward-mode autodiff (jvp) to a custom_vjp function: it says how cotangents "
        "go back and nothing about tangents. Use vjp or grad, or give it a custom_jvp rule."
    )


custom_lin_p.lower = custom_lin_p.jvp = custom_lin_p.batch = _one_way


@custom_lin_p.rule("transpose")
def _(
    cts: Any, *args: Any, bwd: Any, in_zeros: Flags, num_res: int,
    out_avals: tuple[ShapedArray, ...], tree: TreeDef,
) -> list[Any]:  # fmt: skip
    residuals, moving = cut(args, num_res)
    real = [aval.dtype != float0 for aval in out_avals]
    every = [instantiate(ct) for ct in with_zeros(out_avals, real, cts)]
    found = split(in_zeros, bwd((residuals, tree), every))[0]
    for ct, x in zip(found, moving, strict=True):
        if ct is not None and not same_type(aval_of(ct), x.aval):
            raise ValueError(
                f"The bwd rule of {bwd.f.name} must return cotangents of the types of the "
                f"arguments: expected {x.aval.str_short()}, got {aval_of(ct).str_short()}."
            )
    return [None] * num_res + found


# ---- for all examples ---------------------------------------------------------------------------


def _whole(f: Callable[..., Any], size: int, flags: Sequence[bool], args: Sequence[Any]) -> Any:
    """A function of flat lists for all examples, which are along the first axis of all results."""
    dims: list[Dim] = [0 if has else None for has in flags]
    results, out = batch_flat(f, size, args, dims, mapped_axis())
    return [to_front(size, x, dim) for x, dim in zip(results, out, strict=True)]


@dataclass(frozen=True, slots=True, repr=False)
class Batched:
    """A rule for all examples.

    Attributes:
        rule: The rule for one.
        size: How many there are.
        flags: Which arguments hold all examples; the others are the same for each.
    """

    rule: Any
    size: int
    flags: Flags

    @property
    def f(self) -> Any:
        """Whose rule it is."""
        return self.rule.f

    def __repr__(self) -> str:
        return repr(self.rule)


class BatchedJVP(Batched):
    """Of primals and tangents."""

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        has: list[bool] = []

        def both(*xs: Any) -> list[Any]:
            results, moved = self.rule(xs[: len(primals)], xs[len(primals) :])
            has[:] = nonzero(moved)
            return [*results, *split(has, moved)[1]]

        found = _whole(both, self.size, self.flags * 2, [*primals, *tangents])
        results, moved = cut(found, len(has))
        return results, with_zeros([aval_of(x) for x in results], has, moved)


class BatchedFwd(Batched):
    """Of primals."""

    def __call__(self, primals: Sequence[Any]) -> tuple[list[Any], Residuals]:
        trees: list[Any] = []

        def both(*xs: Any) -> list[Any]:
            results, (leaves, tree) = self.rule(xs)
            trees[:] = [len(results), tree]
            return [*results, *leaves]

        results, leaves = cut(_whole(both, self.size, self.flags, primals), trees[0])
        return results, (leaves, trees[1])


class BatchedBwd(Batched):
    """Of residuals and cotangents; what all examples share gets the sum of their cotangents."""

    def __call__(self, residuals: Residuals, cts: Sequence[Any]) -> list[Any]:
        leaves, tree = residuals
        given: list[bool] = []

        def back(*xs: Any) -> list[Any]:
            every = self.rule((xs[: len(leaves)], tree), xs[len(leaves) :])
            given[:] = [ct is not None for ct in every]
            return split(given, every)[1]

        args = [*leaves, *cts]
        found = _whole(back, self.size, [True] * len(args), args)
        every = merge(given, [None] * given.count(False), found)
        pairs = zip(every, self.flags, strict=True)
        return [ct if ct is None or own else reduce_sum(ct, (0,)) for ct, own in pairs]


_BATCHED = {"jvp": BatchedJVP, "fwd": BatchedFwd, "bwd": BatchedBwd}


@kept
def _batch_of(closed: ClosedJaxpr, size: int, batched: Flags) -> tuple[ClosedJaxpr, list[Any]]:
    return hoisted(batch_jaxpr(closed, size, batched, [True] * len(closed.out_avals))[0])


def _batching(primitive: Primitive) -> Callable[..., Any]:
    def batch(
        size: int, args: Any, dims: Any, *, call_jaxpr: ClosedJaxpr, num_consts: int, **params: Any
    ) -> Any:
        batched = tuple(dim is not None for dim in dims)
        whole, new = _batch_of(call_jaxpr, size, batched)
        rules = {
            key: _BATCHED[key](rule, size, batched[num_consts:]) if key in _BATCHED else rule
            for key, rule in params.items()
        }
        results = primitive.bind(
            *new, *fronts(size, args, dims), call_jaxpr=whole, num_consts=len(new) + num_consts,
            **rules,
        )  # fmt: skip
        return results, [0] * len(results)

    return batch


for call in (custom_jvp_call_p, custom_vjp_call_p):
    call.batch = _batching(call)
