"""Traces a call again with the functions that it differentiates under `jax.checkpoint`.

The user's code is not changed. During the trace, `jax.vjp`, which `jax.grad` and
`jax.value_and_grad` also call, wraps its function first.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from jaxlens import compat
from jaxlens.call import isolate
from jaxlens.call.target import ResolvedTarget
from jaxlens.call.traceable import TraceableCall
from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError, first_line
from jaxlens.interrupts import uninterrupted
from jaxlens.ir.driver import REMAT, UNCHECKPOINTED, Loop
from jaxlens.ir.graph import Module
from jaxlens.ir.jaxpr import reader as jaxpr
from jaxlens.questions.memory.measure import checkpoint_segments
from jaxlens.stages.driver import LiveDriver
from jaxlens.stages.trace.trace import Trace, trace
from jaxlens.taps import rolled_loops

_LITERAL = compat.extend("core", "Literal")
_AS_FUNCTION = compat.extend("core", "jaxpr_as_fun")
_BODIES = frozenset({"scan", "while", "cond", "jit", "pjit"})

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


@uninterrupted
def _each_scan() -> Iterator[None]:
    """Replaces `jax.lax.scan` by one that checkpoints its body, until the block ends."""
    original: Any = jax.lax.scan

    @functools.wraps(original)
    def checkpointed(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return original(jax.checkpoint(f, prevent_cse=False), *args, **kwargs)

    jax.lax.scan = checkpointed
    try:
        yield
    finally:
        jax.lax.scan = original


def _by_jaxpr(evaluate: Callable[[Any, list[Any]], list[Any]]) -> Wrap:
    """Returns a wrap that traces the function, and evaluates its closed jaxpr in another way.

    Args:
        evaluate: Evaluates a closed jaxpr on a list of arguments.
    """

    def wrap(f: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(f)
        def inside(*args: Any) -> Any:
            leaves, tree = jax.tree.flatten(args)

            def flattened(*leaves: Any) -> Any:
                return f(*jax.tree.unflatten(tree, leaves))

            make: Any = jax.make_jaxpr(flattened, return_shape=True)
            closed, shape = make(*leaves)
            return jax.tree.unflatten(jax.tree.structure(shape), evaluate(closed, leaves))

        return inside

    return wrap


def over_loops(loops: Callable[[Module], Sequence[Loop]]) -> Way:
    """Returns the way that turns unrolled loops into scans with checkpointed bodies.

    Args:
        loops: Returns the loops of a jaxpr's entry in order, each as (first eqn, eqns per
            iteration, iterations).
    """

    def evaluate(closed: Any, args: list[Any]) -> list[Any]:
        inner, inner_args = _unjitted(closed, args)
        return rolled_loops.checkpointed(inner, inner_args, loops(jaxpr.read(inner)))

    code = "jax.lax.scan(jax.checkpoint(body, prevent_cse=False), x, layers)"
    return Way("the body of a scan in place of the loop", code, _by_jaxpr(evaluate))


def _unjitted(closed: Any, args: list[Any]) -> tuple[Any, list[Any]]:
    """Returns the inner jaxpr and its arguments while a jaxpr is just one jit eqn."""
    body = closed.jaxpr
    while len(body.eqns) == 1 and body.eqns[0].primitive.name == "jit":
        (eqn,) = body.eqns
        if [*map(id, eqn.outvars)] != [*map(id, body.outvars)] or any(
            isinstance(atom, _LITERAL) for atom in eqn.invars
        ):
            break
        pairs = zip([*body.constvars, *body.invars], [*closed.consts, *args], strict=True)
        values = {id(var): value for var, value in pairs}
        args = [values[id(var)] for var in eqn.invars]
        closed = eqn.params["jaxpr"]
        body = closed.jaxpr
    return closed, args


def _evaluated_without(closed: Any, args: Sequence[Any]) -> list[Any]:
    """Evaluates a closed jaxpr with each `jax.checkpoint` replaced by what is in it."""
    values: dict[Any, Any] = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    values.update(zip(closed.jaxpr.invars, args, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, _LITERAL) else values[atom]

    for eqn in closed.jaxpr.eqns:
        read_values = [*map(read, eqn.invars)]
        if eqn.primitive.name in REMAT:
            inner = eqn.params["jaxpr"]
            inner = inner if hasattr(inner, "consts") else type(closed)(inner, ())
            outs = _evaluated_without(inner, read_values)
        else:
            if eqn.primitive.name in _BODIES:
                eqn = eqn.replace(params={**eqn.params, **_bodies_without(eqn.params)})
            free = dict.fromkeys(var for var in eqn.invars if not isinstance(var, _LITERAL))
            whole = closed.jaxpr.replace(
                constvars=[],
                invars=[*free],
                outvars=[*eqn.outvars],
                eqns=[eqn],
                debug_info=closed.jaxpr.debug_info.with_unknown_names(),
            )
            outs = _AS_FUNCTION(type(closed)(whole, ()))(*map(read, free))
        values.update(zip(eqn.outvars, outs, strict=True))
    return [*map(read, closed.jaxpr.outvars)]


def _bodies_without(params: dict[str, Any]) -> dict[str, Any]:
    """Returns the parameters of a loop, a branch or a call with bodies without checkpoints."""

    def without(body: Any) -> Any:
        if not any(eqn.primitive.name in REMAT | _BODIES for eqn in body.jaxpr.eqns):
            return body
        make: Any = jax.make_jaxpr(lambda *args: _evaluated_without(body, args))
        return make(*body.in_avals)

    found = {name: params[name] for name in ("jaxpr", "body_jaxpr") if name in params}
    new: dict[str, Any] = {name: without(body) for name, body in found.items()}
    if "branches" in params:
        new["branches"] = tuple(map(without, params["branches"]))
    return new


_PRODUCTS: Any = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
WAYS: tuple[Way, ...] = (
    Way("the whole function", "jax.grad(jax.checkpoint(f))", jax.checkpoint),
    Way(
        "the whole function, products kept",
        "jax.checkpoint(f, policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable)",
        functools.partial(jax.checkpoint, policy=_PRODUCTS),
    ),
    Way(
        "about √n stretches of its n products",
        "x = jax.checkpoint(stretch)(params, x)",
        _by_jaxpr(checkpoint_segments.checkpointed),
    ),
    Way(
        "each scan's body",
        "jax.lax.scan(jax.checkpoint(body, prevent_cse=False), ...)",
        _each_scan(),  # as a decorator
    ),
)


WITHOUT = Way(UNCHECKPOINTED, "jax.grad(f)", _by_jaxpr(_evaluated_without))


def traced(call: TraceableCall, place: ResolvedTarget, wrap: Wrap) -> Trace:
    """Traces a call with each function that it differentiates wrapped.

    Args:
        call: The result of `shaped`.
        place: The target.
        wrap: Wraps a function.

    Raises:
        UnavailableError: It cannot be wrapped; says why.
    """
    isolate.retire()  # so that JAX does not reuse an earlier trace
    try:
        with compat.differentiated(wrap) as wraps:
            if not wraps:
                raise UnavailableError("this version of JAX has no jax.vjp that could be wrapped")
            return trace(call, place)
    except UnavailableError:
        raise
    except Exception as error:  # jax.checkpoint can reject the function for any reason
        raise UnavailableError(f"{type(error).__name__}: {first_line(error)}") from None
    finally:
        isolate.retire()


Attempt = tuple[str, str, Callable[[], Capture]]
"""A way to rewrite a program: in words, in Python, and what traces it."""


def attempts(live: LiveDriver) -> Iterator[Attempt]:
    """Yields the ways to apply `jax.checkpoint` to what a program differentiates.

    What traces the call again raises UnavailableError where it cannot be.

    Raises:
        UnavailableError: It is a program of `jaxlens.core`.
    """
    if live.staging.by_core:
        raise UnavailableError(
            "what jax.checkpoint would change is tried by JAX: a program of jaxlens.core is not"
        )
    with_checkpoint = any(n.opcode in REMAT for n in live.stage("jaxpr").module.nodes())
    for way in (WITHOUT, *WAYS) if with_checkpoint else WAYS:
        yield way.name, way.code, functools.partial(under, live, way.wrap)


def scan_attempt(live: LiveDriver, loops: Callable[[Module], Sequence[Loop]]) -> Attempt:
    """Returns the way to replace unrolled loops by scans with checkpointed bodies.

    Args:
        live: The driver of the program.
        loops: Returns the loops of a jaxpr's entry, as `ir.driver.Loop`.
    """
    way = over_loops(loops)
    return "", way.code, functools.partial(under, live, way.wrap)


def under(live: LiveDriver, wrap: Wrap) -> Capture:
    """Returns the program of a call with each function that it differentiates wrapped."""
    return Capture(*live.retraced(lambda call, place: traced(call, place, wrap)))
