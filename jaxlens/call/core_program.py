"""Programs of `jaxlens.core` as JAX's own stages: traced by the core, lowered into JAX's module.

The core traces a function to its own jaxpr, which is the one that jaxlens shows. To compile it for
any target, with dumps and JAX's stage objects, that jaxpr is a parameter of a single equation in a
jaxpr of JAX, as it is when the core runs it: that of the primitive of `core/aot/device.py`.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import jax

from jaxlens import compat
from jaxlens.call.arguments import pytrees
from jaxlens.call.arguments.closed_over_names import (
    closure,
    code_globals,
    plain_function,
    stored,
)
from jaxlens.errors import OptionError
from jaxlens.ir.spans import describe

_CORE = "jaxlens.core"
_TRANSFORMS = ("grad", "value_and_grad", "vmap", "jacfwd", "jacrev", "hessian", "checkpoint")
_OF_JAX = ("holomorphic", "policy", "static_argnums")  # options that only its transforms have
_MOST = 2_000  # most objects searched for a use of the core


def is_core_call(f: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call uses the core: its function does, or an argument is an array of the core.

    `def f(x): return x * 2 + 1` names no library: the type of `x` decides what computes it.
    """
    if is_core(f):
        return True
    core: Any = sys.modules.get(_CORE)
    leaves = pytrees.leaves((tuple(args), dict(kwargs))) if core is not None else ()
    return any(isinstance(leaf, core.Array) for _, leaf in leaves)


def is_core(f: Any) -> bool:
    """Whether a function belongs to the core, or is a user function that calls the core.

    Searches the objects that its code names, and those that named user functions name; runs none.
    """
    if _CORE not in sys.modules:
        return False
    pending, visited = [f], set[int]()
    while pending and len(visited) < _MOST:
        obj = pending.pop()
        if id(obj) in visited:
            continue
        visited.add(id(obj))
        if _is_part(obj):
            return True
        pending.extend(_named_objects(obj))
    return False


def _is_part(obj: Any) -> bool:
    """Whether an object is a module, a function or an instance of a class of the core."""
    kind, function = type(obj), plain_function(obj)
    if issubclass(kind, ModuleType):
        name = stored(obj, "__name__")
    elif function is not None:  # a wrapper may have changed its `__module__`
        name = function.__globals__.get("__name__")
    else:
        name = kind.__module__
    return isinstance(name, str) and f"{name}.".startswith(f"{_CORE}.")


def _named_objects(obj: Any) -> Iterator[Any]:
    """Yields the objects that a user function names: globals, closure, wrapped function."""
    if issubclass(type(obj), functools.partial):
        yield obj.func
    inner = stored(obj, "__wrapped__")
    if inner is not None:
        yield inner
    function = plain_function(obj)
    if function is None or describe(function.__code__.co_filename).library:
        return
    yield from (value for _, value in code_globals(function))
    yield from (value for _, value in closure(function))


def library_of(f: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
    """Returns the module whose transforms apply to a call: `jaxlens.core` or `jax`."""
    return sys.modules[_CORE] if is_core_call(f, args, kwargs or {}) else jax


def traceable(f: Any) -> Callable[..., Any]:
    """Returns a function that JAX can trace, and that runs a function of the core.

    Args:
        f: A function of pytrees. Each trace by JAX traces it once by the core.
    """
    from jaxlens import core
    from jaxlens.core.interop.operations import MissingPrimitiveError
    from jaxlens.core.kernel.trace import trace

    def traced(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, jax.core.Tracer)]
        out_trees: list[Any] = []

        def flat(*values: Any) -> list[Any]:
            flat_args = list(leaves)
            for place, value in zip(places, values, strict=True):
                flat_args[place] = value
            own_args, own_kwargs = jax.tree_util.tree_unflatten(tree, flat_args)
            results, out_tree = core.tree_flatten(f(*own_args, **own_kwargs))
            out_trees.append(out_tree)
            return results

        tracers = [leaves[place] for place in places]
        settings: Any = jax.config
        with core.enable_x64(bool(settings.jax_enable_x64)):
            avals = [core.ShapedArray(t.shape, t.dtype, t.weak_type) for t in tracers]
            try:
                closed = trace(flat, avals)
            except MissingPrimitiveError as missing:
                raise OptionError(str(missing)) from None
        consts = [plain(const) for const in closed.consts]
        results = _bind(closed, [*consts, *tracers])
        return out_trees[0].unflatten(results)

    return traced


def jitted(f: Any) -> Callable[..., Any]:
    """Makes a function traceable; if `core.jit` made it, applies `jax.jit` with its options."""
    from jaxlens import core

    if not isinstance(f, core.Jitted):
        return functools.wraps(f)(traceable(f))
    inner = functools.wraps(f.f)(traceable(f.f))
    return jax.jit(
        inner,
        static_argnums=sorted(n for n in f.static if isinstance(n, int)),
        static_argnames=sorted(n for n in f.static if isinstance(n, str)),
        donate_argnums=sorted(n for n in f.donated if isinstance(n, int)),
        donate_argnames=sorted(n for n in f.donated if isinstance(n, str)),
    )


def on_core(f: Any, **static: Any) -> Any:
    """Returns a function of JAX as one of the core: JAX traces it, the core transforms it.

    The transforms of JAX around it are made by the core, as far as it has their options; those
    that the function applies itself are JAX's.

    Args:
        f: A function, transformed or not; one of the core is returned as it is.
        static: `static_argnums` and `static_argnames` of a jit around it.
    """
    from jaxlens import core

    if is_core(f):
        return f
    if (parts := compat.jit_parts(f)) is not None and not static:
        fun, info = parts
        static = {
            name: tuple(getattr(info, name)) for name in ("static_argnums", "static_argnames")
        }
        donated = tuple(info.donate_argnums)
        return core.jit(on_core(fun, **static), **static, donate_argnums=donated)
    inner, options = compat.wrapped(f), compat.settings(f)
    make = getattr(core, compat.transform_name(f) or "None", None)
    of_jax = any(static.values()) or any(map(options.get, _OF_JAX))
    if make is not None and inner is not None and not of_jax:
        taken = inspect.signature(make).parameters
        options = {k: v for k, v in options.items() if k in taken and k != "f"}
        return make(on_core(inner), **options)
    return core.from_jax(f, **static)


def engine(f: Any) -> str:
    """Returns which library makes the program of a function of the core, for a header."""
    from jaxlens.core.interop.from_jax import from_jax

    inside = f"{from_jax.__name__}.<locals>."
    while f is not None:
        code = compat.attribute(f, "__code__")
        if code is not None and code.co_qualname.startswith(inside) and _is_part(f):
            return f"traced by JAX, the rest by {_CORE}"
        f = stored(f, "__wrapped__")
    return f"by {_CORE}"


def transform(f: Any) -> str:
    """Returns the name of the core's transform that returned a function; "" for none."""
    code = compat.attribute(f, "__code__")
    if code is None or not _is_part(f):
        return ""
    name, inner, _ = code.co_qualname.partition(".<locals>.")
    return name if inner and name in _TRANSFORMS else ""


def _bind(closed: Any, operands: list[Any]) -> list[Any]:
    """Binds `core_program` in JAX's trace, with shardings if the program has a shard_map."""
    from jaxlens.core.aot.device import program_p, spread
    from jaxlens.core.aot.lower import layout

    place = layout(closed)
    if place is None:
        return list(program_p.bind(*operands, program=closed))

    def laid_out(values: list[Any], specs: Sequence[Any]) -> list[Any]:
        constrain: Any = jax.lax.with_sharding_constraint
        pairs = zip(values, specs, strict=True)
        return [constrain(x, spread(place.mesh, spec)) for x, spec in pairs]

    specs = [()] * len(closed.consts) + list(place.in_specs)
    results = program_p.bind(*laid_out(operands, specs), program=closed)
    return laid_out(list(results), place.out_specs)


def plain(value: Any) -> Any:
    """Returns the JAX array behind an array of the core; any other value unchanged."""
    core = sys.modules.get(_CORE)
    return value.buffer if core is not None and isinstance(value, core.Array) else value


def written(traced: Any) -> Any:
    """Returns the core's jaxpr from a Traced of JAX; None if it has no `core_program` equation."""
    for eqn in traced.jaxpr.eqns:
        if eqn.primitive.name == "core_program":
            return eqn.params["program"]
    return None


def _abstract(*_: Any, program: Any) -> list[Any]:
    return [jax.core.ShapedArray(a.shape, a.dtype, a.weak_type) for a in program.out_avals]
