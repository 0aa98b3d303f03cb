"""Derivatives by the user's own rules: `custom_jvp`, `custom_vjp`.

A function may know its derivative better than its equations do: to be stable, cheap, or defined at
all. A decorated function is traced to a call that carries the user's rules. The jvp rule of a
`custom_jvp_call` is the user's. That of a `custom_vjp_call` runs the user's forward pass, and sends
the tangents through a placeholder, `custom_lin`, that no one can compute and only transposition
takes apart: there the user's backward pass is put. Under vmap the rules are mapped with the call.

JAX traces the function only under `jit`; here it always is, so that Python's `if` in it cannot look
at numbers. And JAX forgets a jvp rule inside a scan once that is differentiated, so that the second
derivative is the function's own; here it stays.

After "Custom derivative rules for JAX-transformable Python functions" (docs.jax.dev).
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, update_wrapper, wraps
from inspect import signature
from typing import Any, NamedTuple, NoReturn, cast

from jaxlens.core.kernel.basics import instantiate, reduce_sum
from jaxlens.core.kernel.interpreter import Primitive, aval_of, interpreting
from jaxlens.core.kernel.jaxpr import ClosedJaxpr, as_function
from jaxlens.core.kernel.types import float0, tangent_aval
from jaxlens.core.kernel.vjp import Partial
from jaxlens.core.kernel.vmap import mapped_axis
from jaxlens.core.transforms.batching import vmap
from jaxlens.core.transforms.calls import same_type, transformed
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

    def __init__(self, f: Callable[..., Any]) -> None:
        update_wrapper(cast(Callable[..., Any], self), f, updated=())
        self.f = f
        self.name: str = getattr(f, "__name__", "f")
        self.rules: dict[str, Callable[..., Any]] = {}

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
        callee = Callee(self.name, in_tree, body.out_tree)
        rules = {kind: _CHECKED[kind](rule, callee) for kind, rule in self.rules.items()}
        params = {"name": self.name, "call_jaxpr": body.jaxpr, "num_consts": len(body.consts)}
        results = self.call.bind(*body.consts, *leaves, **params, **rules)
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
def _jvp_rule(function: Callable[..., Any], callee: Callee) -> Callable[..., Any]:
    """Maps primals and tangents to the value and its tangents, without those of integers."""

    @wraps(function)
    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        both = map(callee.in_tree.unflatten, (primals, tangents))
        results, tangent = callee.pair("jvp", function(*both), "value, tangent")
        moved = callee.leaves("jvp", "tangent", tangent)
        tangents_out = []
        for path, x, t in zip(paths(callee.out_tree), results, moved, strict=True):
            expected, aval = tangent_aval(aval_of(x)), aval_of(t)
            if expected.dtype == float0:
                continue
            if not same_type(expected, aval):
                callee.fail(
                    "jvp",
                    f"tangents of the types of the values: tangent{''.join(path)} must be "
                    f"{expected.str_short()}, got {aval.str_short()}",
                )
            tangents_out.append(t)
        return results, tangents_out

    return jvp


@_cached
def _fwd_rule(function: Callable[..., Any], callee: Callee) -> Callable[..., Any]:
    """Maps primals to the value and the residuals."""

    @wraps(function)
    def fwd(primals: Sequence[Any]) -> tuple[list[Any], Any]:
        result = function(*callee.in_tree.unflatten(primals))
        return callee.pair("fwd", result, "value, residuals")

    return fwd


@_cached
def _bwd_rule(function: Callable[..., Any], callee: Callee) -> Callable[..., Any]:
    """Maps residuals and cotangents of the value to a cotangent per leaf, or None."""

    @wraps(function)
    def bwd(residuals: Any, cts: Sequence[Any]) -> list[Any]:
        trees = callee.in_tree.children
        result = function(residuals, callee.out_tree.unflatten(cts))
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

    return bwd


_CHECKED = {"jvp": _jvp_rule, "fwd": _fwd_rule, "bwd": _bwd_rule}

# ---- what users write ---------------------------------------------------------------------------


class custom_jvp(WithRules):  # noqa: N801 - as in jax
    """A function whose tangent the user computes: a decorator, completed by `defjvp`."""

    call = custom_jvp_call_p

    def defjvp(self, jvp: Callable[..., Any]) -> Callable[..., Any]:
        """Sets the rule: `jvp(primals, tangents) -> (value, tangent)`."""
        self.rules = {"jvp": jvp}
        return jvp


class custom_vjp(WithRules):  # noqa: N801 - as in jax
    """A function whose gradient the user computes: a decorator, completed by `defvjp`.

    It has reverse mode only: nothing says what its tangent is.
    """

    call = custom_vjp_call_p

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Sets the rules.

        Args:
            fwd: Of the same arguments as the function: `(value, residuals)`.
            bwd: `(residuals, cotangent)` to a tuple with a cotangent for each argument; None where
                it is zero.
        """
        self.rules = {"fwd": fwd, "bwd": bwd}


# ---- calls --------------------------------------------------------------------------------------


def _moving(tangents: Sequence[Any], name: str, num_consts: int) -> list[Any]:
    """Returns the tangents of the arguments; raises if a captured value has one."""
    closed_over, moving = cut(tangents, num_consts)
    if any(nonzero(closed_over)):
        raise TypeError(
            f"{name} is differentiated by a value that it takes from outside, for which its rule "
            f"says nothing: make that value an argument of {name} and of its rule."
        )
    return moving


def _with_zeros(results: Sequence[Any], moved: Sequence[Any]) -> tuple[Sequence[Any], list[Any]]:
    """Returns results and their tangents, `Zero` for integers."""
    avals = list(map(aval_of, results))
    return results, with_zeros(avals, [tangent_aval(a).dtype != float0 for a in avals], moved)


@custom_jvp_call_p.rule("jvp")
def _(primals: Any, tangents: Any, *, name: str, jvp: Any, num_consts: int, **_: Any) -> Any:
    moving = _moving(tangents, name, num_consts)
    return _with_zeros(*jvp(list(primals[num_consts:]), list(map(instantiate, moving))))


@custom_vjp_call_p.rule("jvp")
def _(
    primals: Any, tangents: Any, *, name: str, fwd: Any, bwd: Any, num_consts: int, **_: Any
) -> Any:
    moving = _moving(tangents, name, num_consts)
    results, saved = fwd(list(primals[num_consts:]))
    residuals, tree = tree_flatten(saved)
    has = nonzero(moving)
    avals = tuple(tangent_aval(aval_of(x)) for x in results)
    params = {"nonzero": has, "num_res": len(residuals), "out_avals": avals, "tree": tree}
    out = custom_lin_p.bind(*residuals, *split(has, moving)[1], bwd=bwd, **params)
    return _with_zeros(results, out)


def _one_way(*_: Any, **__: Any) -> NoReturn:
    raise TypeError(
        "can't apply forward-mode autodiff (jvp) to a custom_vjp function: it says how cotangents "
        "go back and nothing about tangents. Use vjp or grad, or give it a custom_jvp rule."
    )


custom_lin_p.abstract = lambda *_, out_avals, **__: [a for a in out_avals if a.dtype != float0]
custom_lin_p.lower = custom_lin_p.jvp = custom_lin_p.batch = _one_way


@custom_lin_p.rule("transpose")
def _(cts: Any, *args: Any, bwd: Any, num_res: int, out_avals: Any, **params: Any) -> list[Any]:
    residuals, moving = cut(args, num_res)
    cts = with_zeros(out_avals, [aval.dtype != float0 for aval in out_avals], cts)
    cts = bwd(params["tree"].unflatten(residuals), list(map(instantiate, cts)))
    cts_in = split(params["nonzero"], cts)[1]
    for ct, x in zip(cts_in, moving, strict=True):
        if ct is not None and not same_type(aval_of(ct), x.aval):
            raise ValueError(
                f"The bwd rule {bwd.__name__} must return cotangents of the types of the "
                f"arguments: expected {x.aval.str_short()}, got {aval_of(ct).str_short()}."
            )
    return [None] * num_res + cts_in


# ---- for all examples ---------------------------------------------------------------------------


@_cached
def _batched(rule: Callable[..., Any], size: int, flags: Flags, backward: bool) -> Any:
    """Returns the batched rule: examples are along the first axes of its arrays.

    Args:
        rule: The rule for one example.
        size: How many there are.
        flags: Which arguments of the function hold all examples; the others are shared.
        backward: Whether it is a bwd rule: a shared argument gets the sum of the cotangents.
    """

    @wraps(rule)
    def batched(*args: Any) -> Any:
        shared = tuple([0 if has else None for has in flags] for _ in args)
        result = vmap(rule, 0 if backward else shared, 0, mapped_axis(), size)(*args)
        if not backward:
            return result
        pairs = zip(result, flags, strict=True)
        return [ct if ct is None or own else reduce_sum(ct, (0,)) for ct, own in pairs]

    return batched


def _rules(call: Primitive) -> None:
    """Gives a call with custom rules its own abstract, lower, partial and batch rules."""

    def lower(ctx: Any, *operands: Any, call_jaxpr: ClosedJaxpr, **_: Any) -> Any:
        return ctx.inline(call_jaxpr, *operands)

    def partial(interpreter: Partial, args: Any, params: dict[str, Any]) -> list[Any]:
        """Evaluates the body: partially known arguments are differentiated already."""
        with interpreting(interpreter):
            return as_function(params["call_jaxpr"])(*args)

    def batch(
        size: int, args: Any, dims: Any, *, call_jaxpr: ClosedJaxpr, num_consts: int, **params: Any
    ) -> Any:
        batched = tuple(dim is not None for dim in dims)
        every = (True,) * len(call_jaxpr.out_avals)
        whole, new, _ = transformed(call_jaxpr, batch_jaxpr, size, batched, every)
        for key in _CHECKED.keys() & params.keys():
            params[key] = _batched(params[key], size, batched[num_consts:], key == "bwd")
        operands, count = [*new, *in_front(size, args, dims)], len(new) + num_consts
        results = call.bind(*operands, call_jaxpr=whole, num_consts=count, **params)
        return results, [0] * len(results)

    call.abstract = lambda *_, call_jaxpr, **__: call_jaxpr.out_avals
    call.lower, call.partial, call.batch = lower, partial, batch


_rules(custom_jvp_call_p)
_rules(custom_vjp_call_p)
