"""Traces a call again with the functions that it differentiates under `jax.checkpoint`.

The user's code is not changed. During the trace, `jax.vjp`, which `jax.grad` and
`jax.value_and_grad` also call, wraps its function first.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
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
from jaxlens.questions.memory.facts import ABSENT
from jaxlens.stages.driver import LiveDriver
from jaxlens.stages.trace.trace import Trace, trace

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
Way = tuple[str, str, str, Wrap]
"""A way to apply `jax.checkpoint`: where, the policy's name, both in Python, what wraps it."""

_POLICIES = (
    "nothing_saveable dots_saveable dots_with_no_batch_dims_saveable everything_saveable".split()
)
WHOLE, SCANS, PRESENT = "the whole function", "each scan's body", "each call that has it"
"""Where `jax.checkpoint` is applied."""


@uninterrupted
def _bound(primitive: Any, bind: Callable[..., Any]) -> Iterator[None]:
    """Has `bind` called, with the original one first, for what binds a primitive in the block."""
    primitive.bind = functools.partial(bind, primitive.bind)
    try:
        yield
    finally:
        del primitive.bind  # that of its class again


def _each_scan(policy: Any = None) -> Wrap:
    """Checkpoints the body of each scan that is traced.

    `fori_loop` and `lax.map` make scans too. A body that has a checkpoint stays as it is: it is the
    user's, or that of a scan which JAX differentiates now.
    """
    as_fun = extend("core", "jaxpr_as_fun")

    def checkpointed(original: Any, *args: Any, jaxpr: Any, **params: Any) -> Any:
        if not any(equation.primitive.name in REMAT for equation in jaxpr.eqns):
            body = jax.checkpoint(as_fun(jaxpr), prevent_cse=False, policy=policy)
            jaxpr = jax.make_jaxpr(body)(*jaxpr.in_avals)
        return original(*args, jaxpr=jaxpr, **params)

    return _bound(jax.lax.scan_p, checkpointed)  # as a decorator


def _each_present(policy: Any) -> Wrap:
    """Gives each `jax.checkpoint` that is traced another policy."""

    def replaced(original: Any, *args: Any, **params: Any) -> Any:
        return original(*args, **{**params, "policy": policy})

    return _bound(extend("core.primitives", "remat_p"), replaced)


def _none_present() -> Wrap:
    """Takes each `jax.checkpoint` that is traced away."""
    closed, as_fun = extend("core", "ClosedJaxpr"), extend("core", "jaxpr_as_fun")

    def bare(_: Any, *args: Any, jaxpr: Any, **__: Any) -> Any:
        return as_fun(closed(jaxpr, ()))(*args)

    return _bound(extend("core.primitives", "remat_p"), bare)


def _policies(names: Sequence[str]) -> Iterator[tuple[str, str, Any]]:
    """Yields JAX's policies: name, Python, and the policy; those by name where values have one."""
    known: Any = jax.checkpoint_policies
    for name in _POLICIES:
        yield name, f"jax.checkpoint_policies.{name}", getattr(known, name)
    places = {"offload_src": "device", "offload_dst": "pinned_host"}
    offload: dict[str, Any] = {
        "names_which_can_be_saved": [],
        "names_which_can_be_offloaded": [*names],
        **places,
    }
    calls = (
        [("save_only_these_names", names, {}), ("save_and_offload_only_these_names", [], offload)]
        if names
        else [("offload_dot_with_no_batch_dims", [], places)]
    )
    for name, args, options in calls:
        written = [*map(repr, args), *(f"{key}={value!r}" for key, value in options.items())]
        policy = getattr(known, name)(*args, **options)
        yield name, f"jax.checkpoint_policies.{name}({', '.join(written)})", policy


def _ways(place: str, names: Sequence[str]) -> Iterator[Way]:
    """Yields `jax.checkpoint` round the whole function, and each policy where it may matter."""
    whole = functools.partial(functools.partial, jax.checkpoint)
    applied: dict[str, tuple[str, Callable[..., Wrap]]] = {
        WHOLE: ("jax.grad(jax.checkpoint(f{}))", whole),
        SCANS: ("jax.lax.scan(jax.checkpoint(body, prevent_cse=False{}), ...)", _each_scan),
        PRESENT: ("jax.checkpoint(...{})", _each_present),
    }
    if place == PRESENT:
        yield "nothing", "", ABSENT, _none_present()
    for where in dict.fromkeys((WHOLE, place)):
        code, wrap = applied[where]
        for name, written, policy in _policies(names):
            if where == place or name in (_POLICIES[0], _POLICIES[2]):
                is_default = name == _POLICIES[0] and where != PRESENT
                option = "" if is_default else f", policy={written}"
                yield where, name, code.format(option), wrap(policy=policy)


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


def attempts(
    live: LiveDriver, place: str = WHOLE, names: Sequence[str] = ()
) -> list[tuple[str, str, str, Callable[[], Capture]]]:
    """Returns the ways to apply `jax.checkpoint` to what a program differentiates.

    Each is where, the policy, in Python, and what traces the call again, which raises
    UnavailableError where it cannot be.

    Args:
        live: The program.
        place: Where policies are tried: `WHOLE`, `SCANS` or `PRESENT`.
        names: The names that `checkpoint_name` gives to values of the program.

    Raises:
        UnavailableError: It is a program of `jaxlens.core`.
    """
    if live.staging.by_core:
        raise UnavailableError(
            "what jax.checkpoint would change is tried by JAX: a program of jaxlens.core is not"
        )

    def under(wrap: Wrap) -> Capture:
        return Capture(*live.retraced(functools.partial(_traced, wrap)))

    ways = _ways(place, names)
    return [(at, policy, code, functools.partial(under, wrap)) for at, policy, code, wrap in ways]
