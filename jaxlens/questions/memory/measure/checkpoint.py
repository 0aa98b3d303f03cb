"""Traces a call again with the functions that it differentiates under `jax.checkpoint`.

The user's code is not changed. During the trace, `jax.vjp`, which `jax.grad` and
`jax.value_and_grad` also call, wraps its function first.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax

from jaxlens import compat
from jaxlens.call.target import ResolvedTarget
from jaxlens.call.traceable import TraceableCall
from jaxlens.captures import Capture
from jaxlens.compat.extend import extend
from jaxlens.errors import UnavailableError, first_line
from jaxlens.interrupts import uninterrupted
from jaxlens.ir.driver import REMAT
from jaxlens.stages.driver import LiveDriver
from jaxlens.stages.trace.trace import Trace, trace

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


@uninterrupted
def _each_scan() -> Iterator[None]:
    """Checkpoints the body of each scan that is traced, until the block ends.

    `fori_loop` and `lax.map` make scans too. A body that has a checkpoint stays as it is: it is the
    user's, or that of a scan which JAX differentiates now.
    """
    primitive: Any = jax.lax.scan_p
    original, as_fun = primitive.bind, extend("core", "jaxpr_as_fun")

    def checkpointed(*args: Any, jaxpr: Any, **params: Any) -> Any:
        if not any(equation.primitive.name in REMAT for equation in jaxpr.eqns):
            body = jax.checkpoint(as_fun(jaxpr), prevent_cse=False)
            jaxpr = jax.make_jaxpr(body)(*jaxpr.in_avals)
        return original(*args, jaxpr=jaxpr, **params)

    primitive.bind = checkpointed
    try:
        yield
    finally:
        del primitive.bind  # that of its class again


_PRODUCTS: Any = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
WAYS: tuple[tuple[str, str, Wrap], ...] = (
    ("the whole function", "jax.grad(jax.checkpoint(f))", jax.checkpoint),
    (
        "the whole function, products kept",
        "jax.checkpoint(f, policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable)",
        functools.partial(jax.checkpoint, policy=_PRODUCTS),
    ),
    (
        "each scan's body",
        "jax.lax.scan(jax.checkpoint(body, prevent_cse=False), ...)",
        _each_scan(),  # as a decorator: scans are others while the function is traced
    ),
)
"""The ways to apply `jax.checkpoint`: in words, in Python, and what wraps a function."""


def _traced(wrap: Wrap, call: TraceableCall, place: ResolvedTarget) -> Trace:
    """Traces a call, given its shapes, with each function that it differentiates wrapped.

    Raises:
        UnavailableError: It cannot be wrapped; says why.
    """
    try:
        with compat.differentiated(wrap) as wraps:
            if not wraps:
                raise UnavailableError("this version of JAX has no jax.vjp that could be wrapped")
            return trace(call, place)
    except UnavailableError:
        raise
    except Exception as error:  # jax.checkpoint can reject the function for any reason
        raise UnavailableError(f"{type(error).__name__}: {first_line(error)}") from None


def attempts(live: LiveDriver) -> list[tuple[str, str, Callable[[], Capture]]]:
    """Returns the ways to apply `jax.checkpoint` to what a program differentiates.

    Each is in words, in Python, and what traces the call again, which raises UnavailableError where
    it cannot be.

    Raises:
        UnavailableError: It is a program of `jaxlens.core`.
    """
    if live.staging.by_core:
        raise UnavailableError(
            "what jax.checkpoint would change is tried by JAX: a program of jaxlens.core is not"
        )

    def under(wrap: Wrap) -> Capture:
        return Capture(*live.retraced(functools.partial(_traced, wrap)))

    return [(name, code, functools.partial(under, wrap)) for name, code, wrap in WAYS]
