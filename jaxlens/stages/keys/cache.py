"""Would this very call hit JAX's caches, and what in it is new?

Answered from the keys that JAX holds, before anything is staged: the trace cache's key is
made the way JAX makes it and compared, then the lowering's. Nothing is traced and no entry
is made. A miss is explained by the nearest earlier key.
"""

import inspect
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax

from jaxlens.ir.compile_log import Change, ChangeKind, merged
from jaxlens.ir.facts import Verdict
from jaxlens.ir.jaxpr.types import type_of
from jaxlens.stages import compat
from jaxlens.stages.arguments import equinox_calls, flax_models
from jaxlens.stages.arguments.inputs import leaves, root_names, signature_of, static_text
from jaxlens.stages.arguments.value_diff import Kept, PyTreeDef, differences
from jaxlens.stages.call import library_jits
from jaxlens.stages.call.opened import Opened

_MOST = 12

EAGER = "{name} is not jitted; called like this it runs op by op and has no cache of its own"
WRAPPED = (
    "{name} calls a jitted function from within a wrapper; what that function would be given, "
    "and so whether it would hit, cannot be known without the call"
)
IMPORTED = "as a module that was imported since has settings of its own (jax.extend, Pallas)"
UNREADABLE = "this version of JAX does not let its caches be read"


@dataclass(frozen=True, slots=True)
class Key:
    """What a trace depends on, in words and comparable values.

    Attributes:
        context: Settings by name.
        settings: What jit was told, by name.
        statics: Static arguments by name.
        inputs: Type of each array leaf by path.
        structures: Pytree structure by argument.
        mesh: The mesh that is set.
        defaults: What static arguments are where they are not given.
        keywords: The arguments that were passed by keyword.
    """

    context: Mapping[str, Any]
    settings: Mapping[str, Any]
    statics: Mapping[str, Any]
    inputs: Mapping[str, str]
    structures: Mapping[str, Any]
    mesh: Any
    defaults: Mapping[str, Any] = field(default_factory=dict)
    keywords: frozenset[str] = frozenset()


def verdict(call: Opened, name: str) -> Verdict:
    """Says whether the call would hit.

    Args:
        call: The call, partials and methods opened.
        name: The function's name.
    """
    parts = compat.jit_parts(call.function)
    if parts is None:
        return _of_wrapper(call, name)
    fun, info = parts
    keys = compat.trace_keys(fun)
    try:
        asked = compat.trace_key(info, call.args, call.kwargs)
    except (TypeError, ValueError, OverflowError) as error:
        return Verdict(None, reasons=(f"JAX would refuse this call: {_one_line(error)}",))
    if keys is None or asked is None:
        return Verdict(None, reasons=(UNREADABLE,))
    (context, rest), arrays = asked
    if (unhashable := _unhashable(call, rest)) is not None:
        return Verdict(None, reasons=(unhashable,))
    keys = [k for k in keys if not compat.is_apart(k[0], context)]
    same = [k for k in keys if k[0] == context and _equal(k[1], rest)]
    if not same:
        return _untraced(replace(call, function=fun), asked[0], keys)
    return _compiled(call, fun, same[0], context, arrays, len(keys))


def _of_wrapper(call: Opened, name: str) -> Verdict:
    """The verdict for what is not jitted itself: a library's jit hands its calls to one that is."""
    try:
        inner = library_jits.inner(call)
    except (TypeError, ValueError) as error:
        return Verdict(None, reasons=(f"{name} would refuse this call: {_one_line(error)}",))
    if inner is not None and inner.known:
        return verdict(inner.call, name)
    is_wrapper = inner is not None or compat.inner_jit(call.function)
    return Verdict(None, reasons=((WRAPPED if is_wrapper else EAGER).format(name=name),))


def _equal(old: tuple[Any, ...], new: tuple[Any, ...]) -> bool:
    """Whether two keys find the same program; equal settings need not be one object."""
    return old[1:] == new[1:] and tuple(old[0]) == tuple(new[0])


def _untraced(
    call: Opened, asked: tuple[Any, tuple[Any, ...]], keys: Sequence[tuple[Any, tuple[Any, ...]]]
) -> Verdict:
    if not keys:
        return Verdict(False, "trace", ("never called before",))
    new = key_of(call, *asked)
    found = [tuple(changes(new, key_of(call, *key))) for key in keys]
    nearest = tuple(map(str, merged(min(found, key=apart))))
    return Verdict(False, "trace", _bounded(nearest or (UNREADABLE,)), len(keys))


def _compiled(
    call: Opened,
    fun: Any,
    key: tuple[Any, tuple[Any, ...]],
    context: Any,
    arrays: Sequence[Any],
    earlier: int,
) -> Verdict:
    """The verdict for a call whose trace is there: is it lowered and compiled too?"""
    program = compat.traced_program(fun, key[1])
    if program is None:
        return Verdict(False, "trace", ("an earlier trace of it failed",), earlier)
    lowered = compat.lower_keys(program)
    wanted = compat.resolved_shardings(program, arrays)
    if lowered is None or wanted is None:
        reason = f"it was traced before; whether it was compiled, {UNREADABLE}"
        return Verdict(None, reasons=(reason,), earlier=earlier)
    if not lowered:
        return Verdict(False, "compile", ("traced before, never compiled",), earlier)
    same = [k for k in lowered if k[0] == context and k[1][0] == wanted]
    if not same:
        names = _leaf_names(call, key[1])
        found = [tuple(moved(names, wanted, k[1][0])) for k in lowered]
        nearest = tuple(map(str, merged(min(found, key=len))))
        return Verdict(False, "compile", _bounded(nearest or ("settings differ",)), earlier)
    done = [compat.is_compiled(program, k) for k in same]
    if any(done):
        return Verdict(True, earlier=earlier)
    if None in done:
        return Verdict(None, reasons=(f"lowered before; {UNREADABLE}",), earlier=earlier)
    return Verdict(False, "compile", ("lowered before, never compiled",), earlier)


def changes(new: Key, old: Key) -> Iterator[Change]:
    """Each thing that differs between two keys."""
    yield from _changed("option", new.settings, old.settings)
    if len(new.context) == len(old.context):
        yield from _changed("setting", settings(new), settings(old))
    else:
        now, was = (f"{len(key.context)} of them" for key in (new, old))
        yield Change("setting", "JAX's settings", f"{now}, {IMPORTED}", was)
    yield from _changed("static", new.statics, old.statics, new.defaults)
    for name in new.inputs:
        if name not in old.inputs:
            yield Change("new", name, new.inputs[name])
    for name, was in old.inputs.items():
        if name not in new.inputs:
            yield Change("gone", name, "", was)
        elif new.inputs[name] != was:
            yield Change("type", name, new.inputs[name], was)
    if new.inputs.keys() == old.inputs.keys():
        yield from _changed("structure", *_dynamic(new, old))
    for name in sorted(new.keywords ^ old.keywords):
        if all(name in (*key.structures, *key.statics) for key in (new, old)):
            yield Change("calling", name, *_CALLED[name in new.keywords])
    if new.mesh != old.mesh:
        yield Change("mesh", "mesh", _mesh_text(new.mesh), _mesh_text(old.mesh))


def _dynamic(new: Key, old: Key) -> list[dict[str, Any]]:
    """The containers of both, without the arguments that hold no array in the only one of them."""
    told = {*new.statics, *old.statics}
    both = new.structures.keys() & old.structures.keys()
    return [
        {name: tree for name, tree in key.structures.items() if name in both or name not in told}
        for key in (new, old)
    ]


_CALLED = {True: ("by keyword", "by position"), False: ("by position", "by keyword")}


def apart(found: Iterable[Change]) -> float:
    """How far apart two keys are, given what differs: types that differ in one axis are near."""
    return sum(map(_distance, found))


def _distance(change: Change) -> float:
    if change.kind in ("new", "gone"):
        return 1.5  # another container; fewer of them than values
    if change.kind != "type":
        return 1.0
    new, old = (text.replace("[", ",").split(",") for text in (change.new, change.old))
    if len(new) != len(old):
        return 0.9 + 0.1 * (new[0] != old[0])
    return 0.5 + 0.4 * sum(map(_ratio, new, old)) / len(new)


def _ratio(new: str, old: str) -> float:
    """How far apart two dimensions or dtypes are, 0 to 1; sizes by their ratio."""
    sizes = [int(text.rstrip("]")) for text in (new, old) if text.rstrip("]").isdigit()]
    if new == old:
        return 0.0
    if len(sizes) < 2 or not min(sizes):
        return 1.0
    return 0.5 + 0.5 * (1 - min(sizes) / max(sizes))


def settings(key: Key) -> dict[str, Any]:
    """The context without its meshes, which the key has under one name."""
    return {k: v for k, v in key.context.items() if not k.endswith("mesh_context_manager")}


def _changed(
    kind: ChangeKind,
    new: Mapping[str, Any],
    old: Mapping[str, Any],
    defaults: Mapping[str, Any] | None = None,
) -> Iterator[Change]:
    for name in dict.fromkeys((*new, *old)):
        if name in old and name in new:
            if new[name] != old[name]:
                yield from _parts(kind, name, new[name], old[name])
        else:
            yield _change(
                kind, name, *(_value_text(side, name, defaults or {}) for side in (new, old))
            )


def _parts(kind: ChangeKind, name: str, new: Any, old: Any) -> Iterator[Change]:
    """The parts in which two values of one name differ."""
    if kind not in ("static", "structure"):
        yield _change(kind, name, static_text(new), static_text(old))
        return
    for path, now, was in differences(name, new, old):
        if isinstance(now, Kept) and isinstance(was, Kept):
            yield _change("field", path, static_text(now.value), static_text(was.value))
        else:
            yield _change(kind, path, tree_text(now), tree_text(was))


def _change(kind: ChangeKind, name: str, now: str, was: str) -> Change:
    if now != was:
        return Change(kind, name, now, was)
    # What it holds are objects without names of their own: only its type says something.
    kept = was.partition("(")[0] if "(" in was and "<" in was else was
    return Change(kind, name, f"another {kept}", kept)


def tree_text(value: Any) -> str:
    """A static value, or containers in short where what they hold has one order."""
    if isinstance(value, PyTreeDef):
        kind, kept = value.node_data() or (None, None)
        if kind is OrderedDict and kept:
            return f"OrderedDict of {', '.join(map(str, kept))}"
    return static_text(value)


def _value_text(values: Mapping[str, Any], name: str, defaults: Mapping[str, Any]) -> str:
    if name in values:
        return static_text(values[name])
    return f"not given (so {static_text(defaults[name])})" if name in defaults else "not given"


def _mesh_text(mesh: Any) -> str:
    return str(dict(mesh.shape)) if getattr(mesh, "shape", None) else "none"


def key_of(call: Opened, context: Any, rest: tuple[Any, ...]) -> Key:
    """A key of JAX's trace cache as data, under the names that the user knows."""
    info, signature, avals, mesh = rest
    names = compat.context_names()
    if len(names) != len(context):  # made before the import of a module that has settings
        names = tuple(f"JAX setting {i}" for i in range(len(context)))
    settings_of = dict(zip(names, context, strict=True))
    options = {k: v for k, v in info._asdict().items() if not k.startswith("fun_")}
    texts = [aval_text(aval) for aval in avals]
    trees, fixed = compat.signature_tree(signature), compat.static_values(signature)
    if trees and fixed and (user := equinox_calls.taken(call.function, trees, fixed[0])):
        held = equinox_calls.named(user, texts)
        return Key(
            settings_of,
            options,
            held.statics,
            held.inputs,
            held.structures,
            mesh,
            _defaults(signature_of(user.function)),
            frozenset(user.kwargs),
        )
    structures = _structures(call, info, signature)
    paths = [path for root, tree in structures.items() for path in _paths(root, tree)]
    if call.names and len(call.names) == len(avals):
        paths = list(call.names)
    elif len(paths) != len(avals):
        paths = [f"input {i}" for i in range(len(avals))]
    return Key(
        settings_of,
        options,
        _statics(call, info, signature),
        dict(zip(paths, texts, strict=True)),
        structures,
        mesh,
        _defaults(call.signature),
        _keywords(signature),
    )


def aval_text(aval: Any) -> str:
    """An abstract value with what tells it apart for JAX: type, weakness, sharding."""
    kind = type_of(aval)
    weak = "weak " if getattr(aval, "weak_type", False) else ""
    sharding = getattr(aval, "sharding", None)
    spec = getattr(sharding, "spec", None) or ()
    explicit = f" sharded {tuple(spec)}" if any(axis is not None for axis in spec) else ""
    sizes = getattr(getattr(sharding, "mesh", None), "shape", None) or {}
    mesh = ", ".join(f"{name}={size}" for name, size in sizes.items())
    return f"{weak}{kind}{explicit}{f' on mesh {mesh}' if mesh else ''}"


def _structures(call: Opened, info: Any, signature: Any) -> dict[str, Any]:
    """Pytree structure by argument name, positional arguments first, as JAX orders them."""
    parts = compat.signature_tree(signature)
    if parts is None:
        return {}
    *trees, keywords = parts
    count = len(trees) - len(keywords)
    fixed = {i for i in info.static_argnums if i >= 0}
    every = root_names(count + len(fixed), call.signature)
    positional = [name for i, name in enumerate(every) if i not in fixed][:count]
    return dict(zip((*positional, *keywords), trees, strict=True))


def _paths(root: str, tree: Any) -> Iterator[str]:
    filled = jax.tree_util.tree_unflatten(tree, range(tree.num_leaves))
    found, _ = jax.tree_util.tree_flatten_with_path(filled, is_leaf=flax_models.is_states)
    for path, leaf in found:
        way = root + jax.tree_util.keystr(path)
        inside = flax_models.paths(leaf) if flax_models.is_states(leaf) else [""]
        yield from (way + step for step in inside)


def _statics(call: Opened, info: Any, signature: Any) -> dict[str, Any]:
    found = compat.static_values(signature)
    if found is None:
        return {}
    values, keywords = found
    count = len(values) - len(keywords)
    positions = sorted(i for i in info.static_argnums if i >= 0)[:count]
    every = root_names(max(positions, default=-1) + 1, call.signature)
    return dict(zip((*(every[i] for i in positions), *keywords), values, strict=False))


def _keywords(signature: Any) -> frozenset[str]:
    dynamic, fixed = compat.signature_tree(signature), compat.static_values(signature)
    return frozenset((*(dynamic[-1] if dynamic else ()), *(fixed[1] if fixed else ())))


def _defaults(signature: inspect.Signature | None) -> dict[str, Any]:
    parameters = signature.parameters.values() if signature else ()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def _unhashable(call: Opened, rest: tuple[Any, ...]) -> str | None:
    for name, value in _statics(call, rest[0], rest[1]).items():
        try:
            hash(value)
        except TypeError:
            return (
                f"JAX would refuse this call: {name} is static and a {type(value).__name__} "
                "cannot be hashed; pass a tuple or another hashable value"
            )
    return None


def _leaf_names(call: Opened, rest: tuple[Any, ...]) -> list[str]:
    fixed = {*rest[0].static_argnums, *rest[0].static_argnames}
    if call.names:
        return list(call.names)
    found = leaves(call.args, call.kwargs, call.signature)
    return [leaf.name for leaf in found if leaf.root not in fixed]


def moved(names: Sequence[str], new: Sequence[Any], old: Sequence[Any]) -> Iterator[Change]:
    """The inputs that lie elsewhere; constants that JAX passes come before them."""
    extra = len(new) - len(names)
    every = [*(f"constant {i}" for i in range(extra)), *names]
    for name, here, there in zip(every, new, old, strict=False):
        if here != there:
            yield Change("place", name, where(here), where(there))


def where(sharding: Any) -> str:
    """Where an input must be: on a device, spread over several, or anywhere."""
    try:
        devices = sorted(sharding.device_set, key=lambda d: d.id)
    except (AttributeError, ValueError, TypeError):
        return "not committed to a device"
    if len(devices) == 1:
        return f"committed to {devices[0].platform}:{devices[0].id}"
    spec = getattr(sharding, "spec", None)
    how = f"P{tuple(spec)}" if spec is not None else type(sharding).__name__
    return f"committed as {how} over {len(devices)} devices"


def _bounded(reasons: Sequence[str]) -> tuple[str, ...]:
    if len(reasons) <= _MOST:
        return tuple(reasons)
    return (*reasons[:_MOST], f"and {len(reasons) - _MOST} more differences")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
