"""Traces a call again with the functions that it differentiates under `jax.checkpoint`.

The user's code is not changed. During the trace, `jax.vjp`, which `jax.grad` and
`jax.value_and_grad` also call, wraps its function first.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend.core import Literal

from jaxlens.errors import UnavailableError
from jaxlens.ir.driver import Loop
from jaxlens.ir.graph import Module
from jaxlens.ir.jaxpr import reader as jaxpr
from jaxlens.stages import compat
from jaxlens.stages.call import isolate
from jaxlens.stages.call.target import ResolvedTarget
from jaxlens.stages.call.traceable import TraceableCall
from jaxlens.stages.experiments import checkpoint_segments
from jaxlens.stages.experiments import scan as rolled
from jaxlens.stages.trace.trace import Trace, trace

_JIT = frozenset({"jit", "pjit"})  # the primitive's name in different versions of JAX

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Way:
    """One way to apply `jax.checkpoint`.

    Attributes:
        name: The checkpointed part of the function, in words.
        code: The same in Python.
        wrap: Returns the function to differentiate instead.
    """

    name: str
    code: str
    wrap: Wrap


def _function(f: Callable[..., Any]) -> Callable[..., Any]:
    wrapped: Callable[..., Any] = jax.checkpoint(f)
    return wrapped


def _but_products(f: Callable[..., Any]) -> Callable[..., Any]:
    kept = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
    wrapped: Callable[..., Any] = jax.checkpoint(f, policy=kept)
    return wrapped


def _scans(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with _each_scan():
            return f(*args, **kwargs)

    return inside


@contextmanager
def _each_scan() -> Iterator[None]:
    """Replaces `jax.lax.scan` by one that checkpoints its body, until the block ends."""
    original: Any = jax.lax.scan

    @functools.wraps(original)
    def scan(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return original(jax.checkpoint(f, prevent_cse=False), *args, **kwargs)

    jax.lax.scan = scan
    try:
        yield
    finally:
        jax.lax.scan = original


def _stretches(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def inside(*args: Any) -> Any:
        closed, flat, tree = _flattened(f, args)
        return jax.tree.unflatten(tree, checkpoint_segments.checkpointed(closed, flat))

    return inside


def _flattened(f: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, list[Any], Any]:
    """Returns a call's closed jaxpr, its argument leaves, and its result tree structure."""
    flat, tree = jax.tree.flatten(args)

    def flattened(*leaves: Any) -> Any:
        return f(*jax.tree.unflatten(tree, leaves))

    made: Any = jax.make_jaxpr(flattened, return_shape=True)(*flat)
    closed, shape = made
    return closed, flat, jax.tree.structure(shape)


def over_loops(loops: Callable[[Module], Sequence[Loop]]) -> Way:
    """Returns the way that turns unrolled loops into scans with checkpointed bodies.

    Args:
        loops: Returns the loops of a jaxpr's entry in order, each as (first eqn, eqns per
            iteration, iterations).
    """

    def wrap(f: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(f)
        def inside(*args: Any) -> Any:
            closed, flat, tree = _flattened(f, args)
            inner, given = _unjitted(closed, flat)
            spans = loops(jaxpr.read(inner))
            return jax.tree.unflatten(tree, rolled.checkpointed(inner, given, spans))

        return inside

    code = "jax.lax.scan(jax.checkpoint(body, prevent_cse=False), x, layers)"
    return Way("the body of a scan in place of the loop", code, wrap)


def _unjitted(closed: Any, args: list[Any]) -> tuple[Any, list[Any]]:
    """Returns the inner jaxpr and its arguments while a jaxpr is just one jit eqn."""
    body = closed.jaxpr
    while len(body.eqns) == 1 and body.eqns[0].primitive.name in _JIT:
        (eqn,) = body.eqns
        if [*map(id, eqn.outvars)] != [*map(id, body.outvars)] or any(
            isinstance(atom, Literal) for atom in eqn.invars
        ):
            break
        known = zip([*body.constvars, *body.invars], [*closed.consts, *args], strict=True)
        values = {id(var): value for var, value in known}
        args = [values[id(var)] for var in eqn.invars]
        closed = eqn.params["jaxpr"]
        body = closed.jaxpr
    return closed, args


WAYS: tuple[Way, ...] = (
    Way("the whole function", "jax.grad(jax.checkpoint(f))", _function),
    Way(
        "the whole function, products kept",
        "jax.checkpoint(f, policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable)",
        _but_products,
    ),
    Way(
        "stretches of it, about a layer each",
        "x = jax.checkpoint(layer)(params, x)",
        _stretches,
    ),
    Way("each scan's body", "jax.lax.scan(jax.checkpoint(body, prevent_cse=False), ...)", _scans),
)


def traced(call: TraceableCall, place: ResolvedTarget, way: Way) -> Trace:
    """Traces a call with each function that it differentiates wrapped.

    Args:
        call: The result of `shaped`.
        place: The target.
        way: How to wrap.

    Raises:
        UnavailableError: It cannot be wrapped; says why.
    """
    isolate.retire()  # so that JAX does not reuse an earlier trace
    try:
        with compat.differentiated(way.wrap) as wraps:
            if not wraps:
                raise UnavailableError("this version of JAX has no jax.vjp that could be wrapped")
            return trace(call, place)
    except UnavailableError:
        raise
    except Exception as error:  # jax.checkpoint can reject the function for any reason
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UnavailableError(f"{type(error).__name__}: {line[:160]}") from None
    finally:
        isolate.retire()
