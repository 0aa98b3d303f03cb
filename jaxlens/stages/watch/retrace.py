"""Traces a call once more with something changed: another shape, or a value that becomes data.

It is traced on abstract shapes, apart from JAX's caches, with what it prints kept back; nothing
is compiled or run.
"""

import contextlib
import copy
import dataclasses
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from jaxlens.errors import OptionError
from jaxlens.stages import compat
from jaxlens.stages.arguments import closed_values, equinox_calls, pytrees
from jaxlens.stages.arguments.inputs import root_names, signature_of
from jaxlens.stages.arguments.value_diff import steps
from jaxlens.stages.call import isolate
from jaxlens.stages.compat import events as compat_events
from jaxlens.stages.keys.call_keys import Met

_Run = Callable[[Any, Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class _Call:
    """A call with abstract shapes in the place of its arrays.

    Attributes:
        function: What is called.
        roots: Its arguments by name.
        run: Calls a function with such arguments.
    """

    function: Any
    roots: dict[str, Any]
    run: _Run


def at_sizes(met: Met, sizes: Mapping[int, tuple[int, ...]]) -> str | None:
    """Traces a call with other shapes.

    Args:
        met: The call.
        sizes: Shapes by the leaf's position.

    Returns:
        "" where it works, the exception's name where it fails, None where it cannot be tried: the
        function is gone, or JAX's settings are others now.
    """
    call = _call(met, sizes)
    return None if call is None else _fails(call, (), {})


def as_data(met: Met, path: str) -> str | None:
    """Traces a call with a static value, or a part of one, as data.

    Args:
        met: The call.
        path: Its name: "n", "config.rate".

    Returns:
        As `at_sizes`; None also where the value is no number and no container of numbers.
    """
    call = _call(met, {})
    place = _place(call, path) if call else None
    if call is None or place is None or not _is_data(part(call.roots[place[0]], place[1])):
        return None
    return _fails(call, (place,), {})


def closed_as_data(met: Met, names: Sequence[str]) -> str | None:
    """Traces a call with values that its function closes over as data.

    Args:
        met: The call.
        names: Of the values, as `closed_values.values` has them.

    Returns:
        As `as_data`.
    """
    call = _call(met, {})
    if call is None:
        return None
    held = closed_values.values(call.function)
    if not all(name in held and _is_data(held[name]) for name in names):
        return None
    if closed_values.with_values(call.function, {}) is None:
        return None
    return _fails(call, (), {name: held[name] for name in names})


def _is_data(value: Any) -> bool:
    leaves = [leaf for _, leaf in pytrees.leaves(value)]
    return bool(leaves) and all(isinstance(x, int | float | complex) for x in leaves)


# ---- the call -----------------------------------------------------------------------------------


def _call(met: Met, sizes: Mapping[int, tuple[int, ...]]) -> _Call | None:
    """The call as the user wrote it; None where its function or JAX's settings are gone."""
    fun = met.inner()
    context, (info, signature, avals, _) = met.exact
    trees, fixed = compat.signature_tree(signature), compat.static_values(signature)
    if fun is None or trees is None or fixed is None or context != compat_events.here():
        return None
    shape: Any = jax.ShapeDtypeStruct  # it has no types
    try:
        arrays = [
            shape(sizes.get(i, aval.shape), aval.dtype, weak_type=aval.weak_type)
            for i, aval in enumerate(avals)
        ]
        user = equinox_calls.taken(fun, trees, fixed[0])
        if user is not None:
            return _of(*equinox_calls.filled(user, arrays))
        return _of(fun, *_arguments(info, trees, fixed, arrays))
    except (AttributeError, TypeError, ValueError):
        return None


def _of(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Call:
    names = root_names(len(args), signature_of(function))

    def run(called: Any, roots: Mapping[str, Any]) -> Any:
        return called(*(roots[name] for name in names), **{name: roots[name] for name in kwargs})

    return _Call(function, {**dict(zip(names, args, strict=True)), **kwargs}, run)


def _arguments(
    info: Any, trees: Sequence[Any], fixed: tuple[list[Any], list[str]], arrays: Sequence[Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of a call of a jitted function, from the parts of its key."""
    *each, names = trees
    statics, keywords = fixed
    leaves = iter(arrays)
    filled = [
        jax.tree_util.tree_unflatten(tree, [next(leaves) for _ in range(tree.num_leaves)])
        for tree in each
    ]
    args = filled[: len(each) - len(names)]
    positions = sorted(i for i in info.static_argnums if i >= 0)
    for position, value in zip(positions, statics[: len(statics) - len(keywords)], strict=False):
        args.insert(position, value)
    named = zip(names, filled[len(each) - len(names) :], strict=True)
    later = zip(keywords, statics[len(statics) - len(keywords) :], strict=True)
    return args, {**dict(named), **dict(later)}


# ---- parts of values ----------------------------------------------------------------------------

_Place = tuple[str, list[tuple[str, Any]]]


def _place(call: _Call, path: str) -> _Place | None:
    """The argument that a path begins with, and the steps into it."""
    roots = [name for name in call.roots if path.startswith(name)]
    root = max(roots, key=len, default=None)
    if root is None:
        return None
    try:
        place = root, steps(path[len(root) :])
        part(call.roots[root], place[1])
    except (AttributeError, KeyError, IndexError, TypeError, ValueError):
        return None
    return place


def part(value: Any, way: Sequence[tuple[str, Any]]) -> Any:
    """What stands at the end of a way into a value, as `differing.steps` gives it."""
    for kind, step in way:
        value = getattr(value, step) if kind == "attribute" else value[step]
    return value


def _replaced(value: Any, way: Sequence[tuple[str, Any]], inner: Any) -> Any:
    """A value with another part at the end of a way; nothing is written to what the user has."""
    outer = [value]
    for step in way[:-1]:
        outer.append(part(outer[-1], (step,)))
    for holder, (kind, step) in zip(reversed(outer), reversed(way), strict=False):
        inner = _with(holder, kind, step, inner)
    return inner


def _with(holder: Any, kind: str, step: Any, inner: Any) -> Any:
    if kind == "attribute" and isinstance(holder, tuple):
        return holder._replace(**{step: inner})  # type: ignore[attr-defined]
    if kind == "attribute" and dataclasses.is_dataclass(holder):
        return dataclasses.replace(holder, **{step: inner})  # type: ignore[type-var]
    if isinstance(holder, tuple):
        return (*holder[:step], inner, *holder[step + 1 :])
    made = copy.copy(holder)
    if kind == "attribute":
        object.__setattr__(made, step, inner)
    else:
        made[step] = inner
    return made


# ---- the trace ----------------------------------------------------------------------------------


def _fails(call: _Call, places: Sequence[_Place], closed: Mapping[str, Any]) -> str:
    """Name of the exception that tracing ends in; "" for none."""
    try:
        for name, value in call.roots.items():  # static ones too, of which JAX flattens none
            pytrees.check(name, value)
    except OptionError as why:
        return type(why).__name__
    leaves, tree = jax.tree_util.tree_flatten(call.roots)
    abstract = [i for i, leaf in enumerate(leaves) if isinstance(leaf, jax.ShapeDtypeStruct)]

    def traced(arrays: Sequence[Any], data: Sequence[Any], seen: Mapping[str, Any]) -> Any:
        every = list(leaves)
        for i, array in zip(abstract, arrays, strict=True):
            every[i] = array
        roots = jax.tree_util.tree_unflatten(tree, every)
        for (root, way), value in zip(places, data, strict=True):
            roots[root] = _replaced(roots[root], way, value)
        function = closed_values.with_values(call.function, seen) if seen else call.function
        found = jax.tree_util.tree_leaves(call.run(function, roots))
        return [leaf for leaf in found if isinstance(leaf, jax.Array | int | float | complex)]

    data = [part(call.roots[root], way) for root, way in places]
    arrays = [leaves[i] for i in abstract]
    silent = io.StringIO()
    with (
        isolate.untouched(isolate.context(), function=call.function),
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
