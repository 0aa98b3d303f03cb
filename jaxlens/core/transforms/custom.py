"""Derivatives by the user's own rules: `custom_jvp`, `custom_vjp`.

A function may know its derivative better than its equations do: to be stable, cheap, or defined at
all. A decorated function is traced to a call that carries its jvp rule. That of a `custom_jvp` is
the user's. That of a `custom_vjp` runs the user's forward pass, and sends the tangents through a
placeholder, `custom_lin`, that no one can compute and only transposition takes apart: there the
user's backward pass is put. Under vmap the rule is mapped with the call.

JAX traces the function only under `jit`; here it always is, so that Python's `if` in it cannot look
at numbers. And JAX forgets a jvp rule inside a scan once that is differentiated, so that the second
derivative is the function's own; here it stays.

After "Custom derivative rules for JAX-transformable Python functions" (docs.jax.dev).
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, update_wrapper, wraps
from inspect import signature
from typing import Any, NamedTuple, NoReturn, cast

from jaxlens.core.kernel.basics import Linear, fronts, instantiate
from jaxlens.core.kernel.interpreter import Primitive, aval_of, interpreting
from jaxlens.core.kernel.jaxpr import ClosedJaxpr, as_function
from jaxlens.core.kernel.types import float0, is_inexact, tangent_aval
from jaxlens.core.kernel.vjp import Partial
from jaxlens.core.kernel.vmap import mapped_axis
from jaxlens.core.transforms.batching import vmap
from jaxlens.core.transforms.calls import transformed
from jaxlens.core.transforms.flags import Flags, cut, in_front, nonzero, split, with_zeros
from jaxlens.core.transforms.jaxprs import batch_jaxpr, traced
from jaxlens.core.transforms.trees import TreeDef, paths, prefix_leaves, tree_flatten

custom_jvp_call_p = Primitive("custom_jvp_call", multiple_results=True)
custom_vjp_call_p = Primitive("custom_vjp_call", multiple_results=True)
custom_lin_p = Primitive("custom_lin", multiple_results=True)

# ---- functions with rules -----------------------------------------------------------------------


class WithRules:
    """A function whose derivative the user defines.

    Args:
        f: A function of arrays; what is none, such as a function, it takes from outside.
    """

    call: Primitive
    made: Callable[..., Callable[..., Any]]  # the jvp rule of leaves, from the user's rules

    def __init__(self, f: Callable[..., Any]) -> None:
        update_wrapper(cast(Callable[..., Any], self), f, updated=())
        self.f = f
        self.name: str = getattr(f, "__name__", "f")
        self.rules: tuple[Callable[..., Any], ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.rules:
            kind = type(self).__name__
            raise AttributeError(
                f"No rule is defined for {kind} function {self.name} by def{kind[7:]}."
            )
        bound = signature(self.f).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(
                f"{self.name} has rules for its derivative, which are given positional arguments "
                f"only: it cannot take the keyword-only {', '.join(bound.kwargs)}."
            )
        body = traced(self.f, bound.args, {})
        leaves, in_tree = tree_flatten(bound.args)
        jvp = self.made(Callee(self.name, in_tree, body.out_tree), *self.rules)
        params = {"name": self.name, "call_jaxpr": body.jaxpr, "num_consts": len(body.consts)}
        results = self.call.bind(*body.consts, *leaves, jvp=jvp, **params)
        return body.out_tree.unflatten(results)


# ---- rules as functions of lists of leaves, which check what the user's return ------------------


class Callee(NamedTuple):
    """What a rule is for.

    Attributes:
        name: The name of the function.
        in_tree: The containers of its arguments.
        out_tree: Those of its value.
    """

    name: str
    in_tree: TreeDef
    out_tree: TreeDef

    def fail(self, kind: str, says: str) -> NoReturn:
        """Raises the error that says what a rule must return."""
        raise TypeError(f"The {kind} rule of {self.name} must return {says}.")

    def pair(self, kind: str, result: Any, parts: str) -> tuple[list[Any], Any]:
        """Returns the leaves of the value in the pair that a rule returned, and the other half."""
        if not isinstance(result, tuple | list) or len(result) != 2:
            self.fail(kind, f"a pair ({parts}), got {type(result).__name__}")
        return self.leaves(kind, "value", result[0]), result[1]

    def leaves(self, kind: str, what: str, tree: Any) -> list[Any]:
        """Returns the leaves of a value or tangent, which has the containers of the value."""
        leaves, found = tree_flatten(tree)
        if found != self.out_tree:
            self.fail(kind, f"a {what} with the containers {self.out_tree}, got {found}")
        return leaves


_cached = lru_cache(maxsize=1024)  # an equal rule is the same object: what it is in compiles once


@_cached
def _jvp_rule(callee: Callee, function: Callable[..., Any]) -> Callable[..., Any]:
    """Maps primals and tangents to the value and its tangents, without those of integers."""

    @wraps(function)
    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        both = map(callee.in_tree.unflatten, (primals, tangents))
        results, tangent = callee.pair("jvp", function(*both), "value, tangent")
        moved = callee.leaves("jvp", "tangent", tangent)
        tangents_out = []
        for path, x, t in zip(paths(callee.out_tree), results, moved, strict=True):
            expected, aval = aval_of(x), aval_of(t)
            if not is_inexact(expected.dtype):
                continue
            if expected.strong != aval.strong:
                callee.fail(
                    "jvp",
                    f"tangents of the types of the values: tangent{''.join(path)} must be "
                    f"{expected.str_short()}, got {aval.str_short()}",
                )
            tangents_out.append(t)
        return results, tangents_out

    return jvp


@_cached
def _vjp_rule(
    callee: Callee, forward: Callable[..., Any], backward: Callable[..., Any]
) -> Callable[..., Any]:
    """As `_jvp_rule`: the forward pass, and tangents that only `custom_lin` knows."""

    @wraps(backward)
    def bwd(residuals: Any, cts: Sequence[Any]) -> list[Any]:
        trees = callee.in_tree.children
        result = backward(residuals, callee.out_tree.unflatten(cts))
        if not isinstance(result, tuple | list) or len(result) != len(trees):
            callee.fail(
                "bwd",
                f"a tuple with a cotangent for each of {len(trees)} arguments, got {result!r}",
            )
        try:
            pairs = zip(result, trees, strict=True)
            leaves = [leaf for ct, tree in pairs for leaf in prefix_leaves(ct, tree, "bwd")]
        except ValueError as wrong:
            callee.fail("bwd", f"cotangents with the containers of the arguments: {wrong}")
        return [None if x is None or aval_of(x).dtype == float0 else x for x in leaves]

    @wraps(forward)
    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        pair = forward(*callee.in_tree.unflatten(primals))
        results, saved = callee.pair("fwd", pair, "value, residuals")
        residuals, tree = tree_flatten(saved)
        moves = tuple(aval_of(tangent).dtype != float0 for tangent in tangents)
        avals = tuple(tangent_aval(aval_of(x)) for x in results)
        params = {"moves": moves, "num_res": len(residuals), "out_avals": avals, "tree": tree}
        return results, custom_lin_p.bind(*residuals, *split(moves, tangents)[1], bwd=bwd, **params)

    return jvp


# ---- what users write ---------------------------------------------------------------------------


class custom_jvp(WithRules):  # noqa: N801 - as in jax
    """A function whose tangent the user computes: a decorator, completed by `defjvp`."""

    call, made = custom_jvp_call_p, staticmethod(_jvp_rule)

    def defjvp(self, jvp: Callable[..., Any]) -> Callable[..., Any]:
        """Sets the rule: `jvp(primals, tangents) -> (value, tangent)`."""
        self.rules = (jvp,)
        return jvp


class custom_vjp(WithRules):  # noqa: N801 - as in jax
    """A function whose gradient the user computes: a decorator, completed by `defvjp`.

    It has reverse mode only: nothing says what its tangent is.
    """

    call, made = custom_vjp_call_p, staticmethod(_vjp_rule)

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Sets the rules.

        Args:
            fwd: Of the same arguments as the function: `(value, residuals)`.
            bwd: `(residuals, cotangent)` to a tuple with a cotangent for each argument; None where
                it is zero.
        """
        self.rules = (fwd, bwd)


# ---- calls --------------------------------------------------------------------------------------


def _jvp(
    primals: Any, tangents: Any, *, name: str, jvp: Any, num_consts: int, **_: Any
) -> tuple[Sequence[Any], list[Any]]:
    closed_over, moving = cut(tangents, num_consts)
    if any(nonzero(closed_over)):
        raise TypeError(
            f"{name} is differentiated by a value that it takes from outside, for which its rule "
            f"says nothing: make that value an argument of {name} and of its rule."
        )
    results, moved = jvp(list(primals[num_consts:]), list(map(instantiate, moving)))
    avals = list(map(aval_of, results))
    return results, with_zeros(avals, [is_inexact(aval.dtype) for aval in avals], moved)


def _lower(ctx: Any, *operands: Any, call_jaxpr: ClosedJaxpr, **_: Any) -> Any:
    return ctx.inline(call_jaxpr, *operands)


def _partial(interpreter: Partial, args: Any, params: dict[str, Any]) -> list[Any]:
    """Evaluates the body: partially known arguments are differentiated already."""
    with interpreting(interpreter):
        return as_function(params["call_jaxpr"])(*args)


def _batch_of(call: Primitive) -> Callable[..., Any]:
    def batch(
        size: int, args: Any, dims: Any, *, call_jaxpr: ClosedJaxpr, jvp: Any, **params: Any
    ) -> Any:
        batched = tuple(dim is not None for dim in dims)
        every = (True,) * len(call_jaxpr.out_avals)
        whole, new, _ = transformed(call_jaxpr, batch_jaxpr, size, batched, every)
        own = _for_all(jvp, size, batched[params["num_consts"] :], mapped_axis())
        params |= {"call_jaxpr": whole, "num_consts": len(new) + params["num_consts"]}
        results = call.bind(*new, *in_front(size, args, dims), jvp=own, **params)
        return results, [0] * len(results)

    return batch


@_cached
def _for_all(rule: Callable[..., Any], size: int, flags: Flags, name: str | None) -> Any:
    """Returns the rule for all examples, along the first axes of its arrays; `flags`: of which."""
    axes = [0 if has else None for has in flags]
    return vmap(rule, (axes, axes), 0, name, size)


for _call in (custom_jvp_call_p, custom_vjp_call_p):
    _call.abstract = lambda *_, call_jaxpr, **__: call_jaxpr.out_avals
    _call.lower, _call.partial, _call.jvp, _call.batch = _lower, _partial, _jvp, _batch_of(_call)

# ---- the placeholder ----------------------------------------------------------------------------


def _one_way(*_: Any, **__: Any) -> NoReturn:
    raise TypeError(
        "can't apply forward-mode autodiff (jvp) to a custom_vjp function: it says how cotangents "
        "go back and nothing about tangents. Use vjp or grad, or give it a custom_jvp rule."
    )


custom_lin_p.abstract = lambda *_, out_avals, **__: [a for a in out_avals if is_inexact(a.dtype)]
custom_lin_p.lower = custom_lin_p.jvp = _one_way


@custom_lin_p.rule("batch")
def _(size: int, args: Any, dims: Any, *, bwd: Any, out_avals: Any, **params: Any) -> Any:
    avals = tuple(aval.update(shape=(size, *aval.shape)) for aval in out_avals)
    params |= {"bwd": vmap(bwd, axis_name=mapped_axis(), axis_size=size), "out_avals": avals}
    results = custom_lin_p.bind(*fronts(size, args, dims), **params)
    return results, [0] * len(results)


@custom_lin_p.rule("transpose")
def _(cts: Any, *args: Any, bwd: Any, num_res: int, out_avals: Any, **params: Any) -> list[Any]:
    residuals, moving = cut(args, num_res)
    cts = with_zeros(out_avals, [is_inexact(aval.dtype) for aval in out_avals], cts)
    cts = bwd(params["tree"].unflatten(residuals), list(map(instantiate, cts)))
    pairs = zip(split(params["moves"], cts)[1], moving, strict=True)
    cts_in = [ct if type(x) is Linear else None for ct, x in pairs]
    for ct, x in zip(cts_in, moving, strict=True):
        if ct is not None and aval_of(ct).strong != x.aval.strong:
            raise ValueError(
                f"The bwd rule {bwd.__name__} must return cotangents of the types of the "
                f"arguments: expected {x.aval.str_short()}, got {aval_of(ct).str_short()}."
            )
    return [None] * num_res + cts_in
