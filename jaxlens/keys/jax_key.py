"""The key by which JAX's caches look up a call, with the names of the user's arguments."""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax

from jaxlens import compat
from jaxlens.call import equinox_calls
from jaxlens.call.arguments.inputs import root_names, static_text
from jaxlens.call.call import Call
from jaxlens.call.numbered_call import leaf_paths, named_leaves, numbered, static_positions
from jaxlens.call.traceable import function_name
from jaxlens.ir.compile_log import KeyPart
from jaxlens.ir.jaxpr.types import type_of
from jaxlens.keys import closed_values
from jaxlens.keys.function_origin import UNKNOWN_ORIGIN, FunctionOrigin, function_origin

# Settings that are listed even if they are no part of the question.
_SHOWN = ("jax_enable_x64", "jax_default_matmul_precision", "jax_default_device")


@dataclass(frozen=True, slots=True)
class JaxKey:
    """The key by which JAX traces, lowers and compiles a call.

    It references neither the function nor an array strongly, so a watch keeps neither alive.

    Attributes:
        exact: The key as JAX has it: trace context, and (jit's settings, signature, types, mesh).
        settings: JAX's settings by name, without the meshes, which are under `mesh`.
        options: What `jax.jit` was given, by name.
        statics: Static values by name.
        inputs: Type of each array by path.
        structures: Pytree of each argument by name.
        mesh: The mesh that is set.
        defaults: Default values of the parameters by name.
        keywords: The arguments that were passed by keyword.
        name: The function's name.
        origin: The line of Python that created the function.
        function: Returns the function object while it exists; the user's, of one that Equinox made.
        inner: Returns the function object that JAX traces while it exists, or an equal one.
        places: Where each array lies, by path. Part of the key of the compile.
        holders: The class of each array, by path.
        closed: Plain values that the function closes over, by name.
    """

    exact: tuple[Any, tuple[Any, ...]]
    settings: Mapping[str, Any]
    options: Mapping[str, Any]
    statics: Mapping[str, Any]
    inputs: Mapping[str, str]
    structures: Mapping[str, Any]
    mesh: Any
    defaults: Mapping[str, Any]
    keywords: frozenset[str]
    name: str = ""
    origin: FunctionOrigin = UNKNOWN_ORIGIN
    function: Callable[[], Any] = lambda: None
    inner: Callable[[], Any] = lambda: None
    places: Mapping[str, str] = field(default_factory=dict)
    holders: Mapping[str, str] = field(default_factory=dict)
    closed: Mapping[str, Any] = field(default_factory=dict)

    def parts(self) -> Iterator[KeyPart]:
        """Yields the key as rows: inputs, static values, containers, options, settings.

        Without options and settings that have their usual values.
        """
        for name, text in self.inputs.items():
            place, holder = self.places.get(name, ""), self.holders.get(name, "")
            yield KeyPart(name, "input", text, place, holder)
        for name, value in self.statics.items():
            yield KeyPart(name, "static", static_text(value))
        for name, tree in self.structures.items():
            if tree.num_leaves != 1 or tree.num_nodes != 1:
                yield KeyPart(name, "structure", static_text(tree))
        for name, value in self.options.items():
            if not _is_default(name, value):
                yield KeyPart(name, "option", value_text(value))
        for name, value in self.settings.items():
            if name in _SHOWN and value is not None and value is not False:
                yield KeyPart(name, "setting", static_text(value))


def _is_default(name: str, value: Any) -> bool:
    """Whether an option has the default of `jax.jit`."""
    return name == "inline" or value is None or value is False or value == ()


def _options(info: Any) -> dict[str, Any]:
    """Returns what `jax.jit` was given, by name; shardings and layouts by their paths.

    JAX has those as treedef and leaves, and a leaf for what was not given: None, or a class.
    """
    given = {k: v for k, v in info._asdict().items() if not k.startswith(("fun_", "user_"))}
    options: dict[str, Any] = {}
    for name, value in given.items():
        argument, _, part = name.rpartition("_")
        if part == "leaves" and any(v is not None and not _is_unspecified(v) for v in value):
            leaves = leaf_paths(argument, given[f"{argument}_treedef"].unflatten(value))
            options |= {p: v for p, v in leaves if not _is_unspecified(v)}
        elif part not in ("leaves", "treedef"):
            options[name.removesuffix("_kvs")] = value
    return options


def value_text(value: Any) -> str:
    """Returns the text of a static value or an option: of a sharding, its spec and mesh."""
    if isinstance(value, jax.sharding.NamedSharding):
        return f"P{tuple(value.spec)}{_mesh_text(value)}"
    return "not given" if _is_unspecified(value) else static_text(value)


def _is_unspecified(value: Any) -> bool:
    return type(value).__name__ == "UnspecifiedValue"


def _mesh_text(sharding: Any) -> str:
    sizes = getattr(getattr(sharding, "mesh", None), "shape", None) or {}
    mesh = ", ".join(f"{name}={size}" for name, size in sizes.items())
    return f" on mesh {mesh}" if mesh else ""


def key_of(call: Call, info: Any, origin: FunctionOrigin | None = None) -> JaxKey | None:
    """Returns the key of a call of a jitted function; None if this version of JAX hides it.

    Args:
        call: The Python function inside the jitted one, and the arguments.
        info: The settings of its `jax.jit`.
        origin: The line of Python that created the function, if it is known already.

    Raises:
        TypeError: An argument is no array and not marked static.
        ValueError: A static argument cannot be hashed.
    """
    key_and_leaves = compat.trace_key(info, call.args, call.kwargs)
    if key_and_leaves is None:
        return None
    exact, leaves = key_and_leaves
    key = cached_key(call, *exact)
    function = named_function(call.function, exact[1][1])
    return replace(
        key,
        name=function_name(function),
        origin=origin or function_origin(function),
        function=_reference(user_function(call.function, exact[1][1])),
        inner=_living_or_equal(call.function),
        places=dict(zip(key.inputs, map(_place, leaves), strict=False)),
        holders=dict(zip(key.inputs, map(_holder, leaves), strict=False)),
        closed=closed_values.values(function),
    )


def cached_key(call: Call, context: Sequence[Any], rest: tuple[Any, ...]) -> JaxKey:
    """Returns the key of an entry in JAX's trace cache.

    Args:
        call: The Python function inside the jitted one. Its arguments are read from the key.
        context: The trace context in the key.
        rest: Jit's settings, signature, types and mesh.
    """
    info, signature, avals, mesh = rest
    names = compat.context_names()
    if len(names) != len(context):  # older than the import of a module that has settings
        names = tuple(f"JAX setting {i}" for i in range(len(context)))
    statics, structures, paths, user = _arguments(call, info, signature)
    if call.names and len(call.names) == len(avals):
        paths = list(call.names)
    elif len(paths) != len(avals) or compat.pmapped(call.function):
        paths = [f"input {i}" for i in range(len(avals))]
    parameters = user.signature.parameters.values() if user.signature else ()
    return JaxKey(
        exact=(context, rest),
        settings={
            name: value
            for name, value in zip(names, context, strict=True)
            if not name.endswith("mesh_context_manager")
        },
        options=_options(info),
        statics=statics,
        inputs=dict(zip(paths, map(aval_text, avals), strict=True)),
        structures=structures,
        mesh=mesh,
        defaults={p.name: p.default for p in parameters if p.default is not p.empty},
        keywords=frozenset(user.kwargs),
    )


def _arguments(
    call: Call, info: Any, signature: Any
) -> tuple[dict[str, Any], dict[str, Any], list[str], Call]:
    """Returns static values, pytrees and array paths of a call, and the user's call."""
    numbered_call = numbered(call, info, signature)
    if numbered_call is None:
        return {}, {}, [], replace(call, kwargs={})
    if (user := equinox_calls.user_call(numbered_call)) is not None:
        arrays, statics = named_leaves(user)
        trees = {n: jax.tree_util.tree_structure(v) for n, v in user.arguments.items()}
        return statics, trees, list(arrays.values()), user
    statics = static_arguments(numbered_call, info, signature)
    names = [*root_names(len(numbered_call.args), numbered_call.signature), *numbered_call.kwargs]
    values = dict(zip(names, (*numbered_call.args, *numbered_call.kwargs.values()), strict=True))
    dynamic = [name for name in names if name not in statics]
    trees = dict(zip(dynamic, compat.signature_tree(signature) or (), strict=False))
    paths = [path for name in trees for path, _ in leaf_paths(name, values[name])]
    return statics, trees, paths, numbered_call


def static_arguments(call: Call, info: Any, signature: Any) -> dict[str, Any]:
    """Returns the static arguments of a numbered call by name."""
    values, keywords = compat.static_values(signature) or ([], [])
    names = root_names(len(call.args), call.signature)
    positions = static_positions(info)[: len(values) - len(keywords)]
    return {names[i]: call.args[i] for i in positions} | {k: call.kwargs[k] for k in keywords}


def aval_text(aval: Any) -> str:
    """Returns the text of an abstract value: weakness, type, sharding."""
    kind = type_of(aval)
    weak = "weak " if getattr(aval, "weak_type", False) else ""
    sharding = getattr(aval, "sharding", None)
    spec = getattr(sharding, "spec", None) or ()
    explicit = f" sharded {tuple(spec)}" if any(axis is not None for axis in spec) else ""
    return f"{weak}{kind}{explicit}{_mesh_text(sharding)}"


def commitment_text(sharding: Any) -> str:
    """Returns where an input must be: on a device, spread over several, or anywhere."""
    try:
        devices = sorted(sharding.device_set, key=lambda d: d.id)
    except (AttributeError, ValueError, TypeError):
        return "not committed to a device"
    if len(devices) == 1:
        return f"committed to {devices[0].platform}:{devices[0].id}"
    spec = getattr(sharding, "spec", None)
    how = f"P{tuple(spec)}" if spec is not None else type(sharding).__name__
    return f"committed as {how} over {len(devices)} devices"


def _place(leaf: Any) -> str:
    """Returns the place of an argument, as far as the compile's key contains it."""
    sharding = getattr(leaf, "sharding", None)
    if sharding is None or isinstance(leaf, jax.core.Tracer):
        return ""
    return commitment_text(sharding if getattr(leaf, "committed", True) else None)


def _holder(leaf: Any) -> str:
    """Returns the class of an argument."""
    if isinstance(leaf, jax.core.Tracer):
        return "tracer"
    if isinstance(leaf, jax.Array):
        return "jax.Array"
    kind = type(leaf)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}."
    return f"{module}{kind.__name__}"


# ---- functions ----------------------------------------------------------------------------------


def named_function(fun: Any, signature: Any) -> Any:
    """Returns the user's function inside one that Equinox made; else `fun` itself."""
    static = compat.static_values(signature)
    user = equinox_calls.user_function(fun, static[0]) if static else None
    return fun if user is None else user


def user_function(fun: Any, signature: Any) -> Any:
    """Returns the user's function; Equinox's for a model, whose parts are in the key."""
    user = named_function(fun, signature)
    return user if jax.tree_util.all_leaves([user]) else fun


def _reference(fun: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(fun)
    except TypeError:
        return lambda: None


def _living_or_equal(fun: Any) -> Callable[[], Any]:
    """Returns a getter of the function, or of a copy of it once it was deleted, if possible.

    The copy is made from code and plain values; no array is kept.
    """
    reference, recipe = _reference(fun), closed_values.recipe(fun)

    def function() -> Any:
        living = reference()
        return living if living is not None or recipe is None else recipe()

    return function
