"""Equations of JAX that hold jaxprs, or rules of the user's.

Each is a function of the reader in `from_jax.py`, the equation, its operands, and the parameters
that it reads. A custom rule stays the user's: such a call is a guest, to whose one equation JAX
applies it.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax

from jaxlens.core.control.branches import cond_p
from jaxlens.core.control.loops import loop, until_the_last
from jaxlens.core.control.scans import scan_p
from jaxlens.core.interop.types import type_of
from jaxlens.core.kernel.jaxpr import hoisted
from jaxlens.core.kernel.run import jit_p
from jaxlens.core.transforms.calls import with_common_consts
from jaxlens.core.transforms.flags import cut
from jaxlens.core.transforms.remat import remat_p

# ---- equations that hold jaxprs -----------------------------------------------------------------


def _jit(reader: Any, eqn: Any, args: list[Any], *, jaxpr: Any, name: str) -> Any:
    closed, consts = reader.nested(jaxpr)
    return jit_p.bind(*consts, *args, jaxpr=closed, name=name)


def _call(reader: Any, eqn: Any, args: list[Any], *, call_jaxpr: Any) -> Any:
    return reader.results(call_jaxpr.jaxpr, call_jaxpr.consts, *args)


def _remat(
    reader: Any,
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
    reader: Any,
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
    reader: Any,
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
    reader: Any,
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


def _shard_map(reader: Any, eqn: Any, args: list[Any]) -> Any:
    raise reader.missing("cannot run jax.shard_map: use core.shard_map around from_jax.")


def _hi_primitive(reader: Any, eqn: Any, args: list[Any], *, _prim: Any) -> Any:
    """Reads a primitive of JAX that stands for others, from jax 0.12 on, as those."""
    return reader.again(_prim.expand)(*args)


# ---- rules of the user's ------------------------------------------------------------------------


def _custom(reader: Any, eqn: Any, args: list[Any]) -> Any:
    """Binds a guest whose rules are the user's: JAX, which knows them, applies them."""
    called = eqn.params["call_jaxpr"]
    inner = called.jaxpr
    params = list(inner.invars)  # in place of the operands, which may be literals
    alone = inner.replace(
        constvars=[], eqns=[eqn.replace(invars=params)], outvars=list(eqn.outvars)
    )

    def rules(*args: Any) -> list[Any]:
        return list(jax.core.eval_jaxpr(alone, [], *args))

    own = {"call_jaxpr": reader.closed(inner, called.consts), "rules": rules}
    return reader.guest(eqn).bind(*args, name=inner.debug_info.func_name, **own)


def _custom_lin(reader: Any, eqn: Any, args: list[Any]) -> Any:
    """Binds what JAX's jvp of a `custom_vjp` leaves; its transpose is the user's bwd rule."""
    return reader.guest(eqn).bind(*args, rules=partial(eqn.primitive.bind, **eqn.params))


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
WHOLE: dict[str, Callable[[Any, Any, list[Any]], Any]] = {  # with all their parameters
    "debug_print": lambda *_: [],  # the core's programs call no Python
    "shard_map": _shard_map,
    "custom_jvp_call": _custom,
    "custom_vjp_call": _custom,
    "custom_lin": _custom_lin,
}
