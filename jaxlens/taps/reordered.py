"""Evaluates a jaxpr in another order: steps of its scans at once, reads before updates."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import jax

from jaxlens.ir.jaxpr.bodies import opened
from jaxlens.taps.refs import LITERAL, bind

_BODIES = {"jit": "jaxpr", "pjit": "jaxpr", "scan": "jaxpr", "while": "body_jaxpr"}


def reordered(closed: Any, unrolled: set[int], reads_first: bool, args: Sequence[Any]) -> list[Any]:
    """Evaluates a jaxpr with scans unrolled, and reads of an array before an update of it.

    Args:
        closed: The jaxpr.
        unrolled: `id` of the equations of the scans that take twice as many steps a trip.
        reads_first: Whether reads come first, held there by a barrier.
        args: Its arguments.
    """
    jaxpr = opened(closed)
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *args), strict=True))

    def value(var: Any) -> Any:
        return var.val if isinstance(var, LITERAL) else values[var]

    for eqn, ties in _ordered(jaxpr, reads_first):
        operands, more = [value(var) for var in eqn.invars], {}
        if ties:
            barrier: Any = jax.lax.optimization_barrier
            operands[0] = barrier((operands[0], *map(value, ties)))[0]
        if body := _BODIES.get(eqn.primitive.name):
            inner = eqn.params[body]
            changed = partial(reordered, inner, unrolled, reads_first)
            more[body] = jax.make_jaxpr(lambda *given, f=changed: f(given))(*inner.in_avals)
        if id(eqn) in unrolled:
            more["unroll"] = 2 * eqn.params["unroll"]
        values.update(zip(eqn.outvars, bind(eqn, operands, **more), strict=True))
    return [value(var) for var in jaxpr.outvars]


def _ordered(jaxpr: Any, reads_first: bool) -> Iterator[tuple[Any, list[Any]]]:
    """Yields the equations, each update with the results of what reads its operand before it.

    Where they are reordered, what depends on an update comes after all that does not.
    """
    reads_first = reads_first and not jaxpr.effects
    early, late, changed = list[Any](), list[Any](), set[Any]()
    for eqn in jaxpr.eqns:
        reads = {var for var in eqn.invars if not isinstance(var, LITERAL)}
        is_late = reads_first and (_updates(eqn) or not reads.isdisjoint(changed))
        (late if is_late else early).append(eqn)
        changed.update(eqn.outvars if is_late else ())
    done: list[Any] = []
    for eqn in (*early, *late):
        readers = done if reads_first and _updates(eqn) else ()
        yield eqn, [var for one in readers if eqn.invars[0] in one.invars for var in one.outvars]
        done.append(eqn)


def _updates(eqn: Any) -> bool:
    """Whether an equation updates a part of its first operand."""
    name: str = eqn.primitive.name
    return name == "dynamic_update_slice" or name.startswith("scatter")
