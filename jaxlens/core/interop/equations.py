"""Equations of JAX that hold jaxprs, or rules of the user's.

A custom rule stays the user's: JAX applies it to its one equation, by `jax.jvp` or `jax.vjp`, and
the jaxpr of that is read as any other.
"""

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, Protocol

import jax
import numpy as np
from jax import tree_util

from jaxlens.core.control.branches import cond_p
from jaxlens.core.control.loops import loop, until_the_last
from jaxlens.core.control.scans import scan_p
from jaxlens.core.interop.operations import MissingPrimitiveError
from jaxlens.core.interop.types import type_of
from jaxlens.core.kernel.jaxpr import ClosedJaxpr, hoisted
from jaxlens.core.kernel.run import jit_p
from jaxlens.core.kernel.types import float0, is_inexact
from jaxlens.core.transforms.calls import with_common_consts
from jaxlens.core.transforms.custom import custom_jvp, custom_vjp
from jaxlens.core.transforms.flags import cut, merge, split
from jaxlens.core.transforms.remat import remat_p


class JaxprReader(Protocol):
    """What an equation needs of the reader in `from_jax.py`."""

    def closed(self, jaxpr: Any, consts: Sequence[Any] = ()) -> ClosedJaxpr: ...
    def nested(self, closed: Any) -> tuple[ClosedJaxpr, list[Any]]: ...
    def results(self, jaxpr: Any, consts: Sequence[Any], *args: Any) -> list[Any]: ...
    def again(self, f: Callable[..., Any]) -> Callable[..., Any]: ...
    def missing(self, says: str) -> MissingPrimitiveError: ...


# ---- equations that hold jaxprs -----------------------------------------------------------------


def _jit(reader: JaxprReader, eqn: Any, args: list[Any], *, jaxpr: Any, name: str) -> Any:
    closed, consts = reader.nested(jaxpr)
    return jit_p.bind(*consts, *args, jaxpr=closed, name=name)


def _call(reader: JaxprReader, eqn: Any, args: list[Any], *, call_jaxpr: Any) -> Any:
    return reader.results(call_jaxpr.jaxpr, call_jaxpr.consts, *args)


def _remat(
    reader: JaxprReader,
    eqn: Any,
    args: list[Any],
    *,
    jaxpr: Any,
    prevent_cse: bool,
    differentiated: bool,
) -> Any:
    closed, consts = hoisted(reader.closed(jaxpr))
    params = {"prevent_cse": prevent_cse, "differentiated": differentiated}
    return remat_p.bind(*consts, *args, jaxpr=closed, **params)


def _cond(
    reader: JaxprReader,
    eqn: Any,
    args: list[Any],
    *,
    branches: Sequence[Any],
    branches_platforms: Any = None,
) -> Any:
    if branches_platforms is not None:  # a branch for each kind of device: it is known which
        pairs = zip(branches, branches_platforms, strict=True)
        fits = (b for b, names in pairs if names is None or jax.default_backend() in names)
        return _call(reader, eqn, args[1:], call_jaxpr=next(fits))
    own, consts = with_common_consts(list(map(reader.nested, branches)))
    return cond_p.bind(args[0], *consts, *args[1:], branches=tuple(own))


def _while(
    reader: JaxprReader,
    eqn: Any,
    args: list[Any],
    *,
    cond_jaxpr: Any,
    cond_nconsts: int,
    body_jaxpr: Any,
    body_nconsts: int,
) -> Any:
    test, tests = reader.nested(cond_jaxpr)
    body, consts = reader.nested(body_jaxpr)
    own_tests, own_consts, carry = cut(args, cond_nconsts, body_nconsts)
    tests, consts = tests + own_tests, consts + own_consts
    if test.out_avals[0].shape:  # JAX's vmap leaves the condition of each example in place
        test, body = until_the_last((test, body), len(tests))
        consts = tests + consts
    return loop(test, tests, body, consts, carry)


def _scan(
    reader: JaxprReader,
    eqn: Any,
    args: list[Any],
    *,
    jaxpr: Any,
    length: int,
    reverse: bool,
    unroll: int,
    num_consts: int | None = None,
    num_carry: int | None = None,
) -> Any:
    body, new = reader.nested(jaxpr)
    if num_consts is None or num_carry is None:
        num_consts, num_carry = _scan_counts(eqn, jaxpr.jaxpr)
    params = {"length": length, "reverse": reverse, "unroll": unroll, "num_carry": num_carry}
    return scan_p.bind(*new, *args, jaxpr=body, num_consts=len(new) + num_consts, **params)


def _scan_counts(eqn: Any, body: Any) -> tuple[int, int]:
    """Returns the numbers of constants and carried values, from their types from jax 0.12 on."""

    def same(outside: Sequence[Any], inside: Sequence[Any]) -> int:
        pairs = zip(outside, inside, strict=True)
        return sum(len(type_of(a.aval).shape) == len(type_of(b.aval).shape) for a, b in pairs)

    num_carry = same(eqn.outvars, body.outvars)
    return same(eqn.invars, body.invars) - num_carry, num_carry


def _shard_map(reader: JaxprReader, eqn: Any, args: list[Any]) -> Any:
    raise reader.missing("cannot run jax.shard_map: use core.shard_map around from_jax.")


def _hi_primitive(reader: JaxprReader, eqn: Any, args: list[Any], *, _prim: Any) -> Any:
    """Reads a primitive of JAX that stands for others, from jax 0.12 on, as those."""
    return reader.again(_prim.expand)(*args)


# ---- rules of the user's ------------------------------------------------------------------------


def _alone(eqn: Any) -> Callable[..., list[Any]]:
    """Returns a call with the user's rules as a function for JAX, which knows the rules."""
    called = eqn.params["call_jaxpr"].jaxpr
    params = list(called.invars)  # in place of the operands, which may be literals
    alone = called.replace(
        constvars=[], eqns=[eqn.replace(invars=params)], outvars=list(eqn.outvars)
    )
    return lambda *args: list(jax.core.eval_jaxpr(alone, [], *args))


def _moves(variables: Sequence[Any]) -> list[bool]:
    return [is_inexact(type_of(var.aval).dtype) for var in variables]


def _tangents(variables: Sequence[Any], moving: Sequence[Any]) -> list[Any]:
    """Returns a tangent or cotangent for each variable, of those for the inexact ones."""
    zeros = [np.zeros(var.aval.shape, float0) for var in variables]
    return merge(_moves(variables), split(_moves(variables), zeros)[0], moving)


def _custom_jvp(reader: JaxprReader, eqn: Any, args: list[Any]) -> Any:
    def by_jax(primals: Any, moving: Any) -> Any:
        values, tangents = jax.jvp(_alone(eqn), primals, _tangents(eqn.invars, moving))
        return values, split(_moves(eqn.outvars), tangents)[1]

    rule = reader.again(by_jax)

    def jvp(primals: Any, tangents: Any) -> Any:
        values, moved = rule(list(primals), split(_moves(eqn.invars), tangents)[1])
        return values, _tangents(eqn.outvars, moved)

    function = custom_jvp(_named(reader, eqn))
    function.defjvp(jvp)
    return function(*args)


def _custom_vjp(reader: JaxprReader, eqn: Any, args: list[Any]) -> Any:
    trees: list[Any] = []  # of the pullback of JAX, whose leaves are the residuals

    def fwd_by_jax(*primals: Any) -> Any:
        values, pullback = jax.vjp(_alone(eqn), *primals)
        residuals, tree = tree_util.tree_flatten(pullback)
        trees.append(tree)
        return values, residuals

    def bwd_by_jax(residuals: Any, cts: Any) -> Any:
        pullback = tree_util.tree_unflatten(trees[-1], residuals)
        cts_in = pullback(_tangents(eqn.outvars, cts))
        return split(_moves(eqn.invars), cts_in)[1]

    bwd = reader.again(bwd_by_jax)

    def back(residuals: Any, cts: Any) -> Any:
        moving = bwd(residuals, split(_moves(eqn.outvars), cts)[1])
        return tuple(merge(_moves(eqn.invars), repeat(None), moving))

    function = custom_vjp(_named(reader, eqn))
    function.defvjp(reader.again(fwd_by_jax), back)
    return function(*args)


def _named(reader: JaxprReader, eqn: Any) -> Callable[..., Any]:
    """Returns the function that a call with the user's rules calls, under its name."""

    called = eqn.params["call_jaxpr"]

    def function(*args: Any) -> list[Any]:
        return list(_call(reader, eqn, list(args), call_jaxpr=called))

    function.__name__ = called.jaxpr.debug_info.func_name
    return function


EQUATIONS: dict[str, Callable[..., Any]] = {
    "jit": _jit,
    "closed_call": _call,
    "core_call": _call,
    "remat2": _remat,
    "checkpoint": _remat,
    "call_hi_primitive": _hi_primitive,
    "cond": _cond,
    "while": _while,
    "scan": _scan,
}
WHOLE: dict[str, Callable[[JaxprReader, Any, list[Any]], Any]] = {  # with all their parameters
    "debug_print": lambda *_: [],  # the core's programs call no Python
    "shard_map": _shard_map,
    "custom_jvp_call": _custom_jvp,
    "custom_vjp_call": _custom_vjp,
}
