"""Traces a call again with a static or closed-over value as data.

The trace uses avals and separate cache keys (`call.isolate`). No program is compiled or run; the
function's Python runs once more, with its prints discarded.
"""

import ast
import contextlib
import copy
import dataclasses
import io
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax

from jaxlens.call import isolate
from jaxlens.call.arguments import pytrees
from jaxlens.call.arguments.inputs import signature_of
from jaxlens.call.arguments.written_shapes import abstract
from jaxlens.call.call import Call
from jaxlens.call.equinox_calls import user_call
from jaxlens.call.numbered_call import ArrayLeaf, numbered
from jaxlens.compat import events as compat_events
from jaxlens.errors import OptionError
from jaxlens.keys import closed_values
from jaxlens.keys.jax_key import JaxKey


def try_as_data(key: JaxKey, path: str) -> str | None:
    """Traces a call with a static value, or a part of one, as data.

    Args:
        key: The key of the call.
        path: The value's name: "n", "config.rate".

    Returns:
        "" if it traces, the exception's name if it fails. None if it cannot be tried: the function
        was garbage-collected, JAX's settings have changed, or the value is neither a number nor a
        container of numbers.
    """
    call = _call(key)
    steps = None if call is None else locate(call.arguments, path)
    if call is None or steps is None or not _is_data(part(call.arguments, steps)):
        return None
    return _trace_failure(key, call, steps=steps)


def try_closed_as_data(key: JaxKey, names: Sequence[str]) -> str | None:
    """Traces a call with values that its function closes over as data.

    Args:
        key: The key of the call.
        names: Names of the values, as in `closed_values.values`.

    Returns:
        As `try_as_data`.
    """
    call = _call(key)
    if call is None:
        return None
    closed = closed_values.values(call.function)
    are_data = all(name in closed and _is_data(closed[name]) for name in names)
    if not are_data or closed_values.with_values(call.function, {}) is None:
        return None
    return _trace_failure(key, call, closed={name: closed[name] for name in names})


def _is_data(value: Any) -> bool:
    leaves = [leaf for _, leaf in pytrees.leaves(value)]
    return bool(leaves) and all(
        isinstance(leaf, int | float | complex) and not isinstance(leaf, ArrayLeaf)
        for leaf in leaves
    )


def _call(key: JaxKey) -> Call | None:
    """Rebuilds the user's call from its key, with an `ArrayLeaf` for each array.

    Returns None if the function was garbage-collected or JAX's settings have changed.
    """
    fun = key.inner()
    context, (info, signature, *_) = key.exact
    if fun is None or context != compat_events.here():
        return None
    try:
        call = numbered(Call(fun, (), {}, signature_of(fun)), info, signature)
        return call and (user_call(call) or call)
    except (AttributeError, TypeError, ValueError):
        return None


# ---- parts of values ----------------------------------------------------------------------------

_Step = tuple[str, Any]


def locate(values: Mapping[str, Any], path: str) -> list[_Step] | None:
    """Parses a path into the steps to a part of a value.

    "config.rates[0]" is parsed as [("item", "config"), ("attribute", "rates"), ("item", 0)].

    Args:
        values: Values by name.
        path: A path into one of them, as written in a key.

    Returns:
        The steps; None if there is no such part, or a key in the path is no literal.
    """
    root = max((name for name in values if path.startswith(name)), key=len, default=None)
    if root is None:
        return None
    steps: list[_Step] = []
    try:
        # "_" stands for the value, whose name may be no identifier.
        node = ast.parse(f"_{path[len(root) :]}", mode="eval").body
        while isinstance(node, ast.Attribute | ast.Subscript):
            if isinstance(node, ast.Attribute):
                steps.insert(0, ("attribute", node.attr))
            else:
                steps.insert(0, ("item", ast.literal_eval(node.slice)))
            node = node.value
        steps.insert(0, ("item", root))
        part(values, steps)
    except (AttributeError, LookupError, SyntaxError, TypeError, ValueError):
        return None
    return steps if isinstance(node, ast.Name) and node.id == "_" else None


def part(value: Any, steps: Sequence[_Step]) -> Any:
    """Returns the part of a value that the steps select."""
    for kind, step in steps:
        value = getattr(value, step) if kind == "attribute" else value[step]
    return value


def _replaced(value: Any, steps: Sequence[_Step], new: Any) -> Any:
    """Returns a copy of a value with one part replaced; the user's object is not modified."""
    if not steps:
        return new
    (kind, step), *rest = steps
    new = _replaced(part(value, steps[:1]), rest, new)
    if kind == "attribute" and isinstance(value, tuple):
        return value._replace(**{step: new})  # type: ignore[attr-defined]
    if kind == "attribute" and dataclasses.is_dataclass(value):
        return dataclasses.replace(value, **{step: new})  # type: ignore[type-var]
    if isinstance(value, tuple):
        return (*value[:step], new, *value[step + 1 :])
    changed = copy.copy(value)
    if kind == "attribute":
        object.__setattr__(changed, step, new)
    else:
        changed[step] = new
    return changed


# ---- the trace ----------------------------------------------------------------------------------


def _trace_failure(
    key: JaxKey,
    call: Call,
    steps: Sequence[_Step] = (),
    closed: Mapping[str, Any] = MappingProxyType({}),
) -> str | None:
    """Returns the name of the exception that tracing raises; "" for none, None if not tried.

    Args:
        key: The key of the call.
        call: The call.
        steps: To a static value to pass as data; () for none.
        closed: Closed-over values to pass as data.
    """
    arguments = call.arguments
    try:
        for name, value in arguments.items():
            pytrees.check(name, value)
    except OptionError:  # JAX does not flatten static arguments, so they may contain themselves
        return None
    leaves, tree = jax.tree_util.tree_flatten(arguments)
    positions = [i for i, leaf in enumerate(leaves) if isinstance(leaf, ArrayLeaf)]
    avals = key.exact[1][2]

    def traced(arrays: Sequence[Any], data: Any, closed: Mapping[str, Any]) -> Any:
        by_position = dict(zip(positions, arrays, strict=True))
        values = [by_position.get(i, leaf) for i, leaf in enumerate(leaves)]
        roots = jax.tree_util.tree_unflatten(tree, values)
        changed = call.with_arguments(_replaced(roots, steps, data) if steps else roots)
        function: Any = (
            closed_values.with_values(call.function, closed) if closed else call.function
        )
        results = jax.tree_util.tree_leaves(function(*changed.args, **changed.kwargs))
        # What Equinox's jit returns may have functions and texts in it, which that of JAX refuses.
        return [leaf for leaf in results if isinstance(leaf, jax.Array | int | float | complex)]

    try:
        arrays = [
            abstract(avals[i].shape, avals[i].dtype, weak_type=avals[i].weak_type)
            for i in (leaves[position] for position in positions)
        ]
    except (AttributeError, TypeError, ValueError):
        return None
    data = part(arguments, steps) if steps else None
    silent = io.StringIO()
    with (
        isolate.untouched(isolate.context(), call.owner, call.function),
        contextlib.redirect_stdout(silent),
        contextlib.redirect_stderr(silent),
    ):
        try:
            jax.jit(traced).trace(arrays, data, dict(closed))
        except Exception as why:
            return type(why).__name__
        finally:
            isolate.retire()
    return ""
