"""Explains the misses of a call, one of JAX's caches after the other.

A call is compared with earlier ones of the same function object, whose keys are in JAX's caches,
and of other function objects that the same line of Python created. Only a log has the latter: JAX
identifies a function by the object, and drops its keys when the object is deleted.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import ne
from types import SimpleNamespace
from typing import Any

from jaxlens import compat
from jaxlens.call.arguments.inputs import signature_of, static_text
from jaxlens.call.call import Call
from jaxlens.compat import events as compat_events
from jaxlens.compat.events import LOWERING, Stack
from jaxlens.ir.compile_log import TYPE_TEXT, KeyChange, KeyChangeKind, KeyPart
from jaxlens.keys.function_origin import function_origin, place_of, recreated
from jaxlens.keys.jax_key import JaxKey, cached_key, commitment_text, user_function, value_text
from jaxlens.keys.value_diff import AuxData, PyTreeDef, differences, same

Comparison = tuple[tuple[KeyChange, ...], int]
"""The differences to the nearest earlier key, and the number of earlier keys."""

EAGER = "{name} is not jitted, and has no cache of its own"
_IMPORTED = "as a module that was imported since has settings of its own (jax.extend, Pallas)"
_CALLED = {True: ("by keyword", "by position"), False: ("by position", "by keyword")}
_DONATED = {True: ("donated", "not donated"), False: ("not donated", "donated")}


def changes(new: JaxKey, old: JaxKey) -> Iterator[KeyChange]:
    """Yields the differences of two keys of the trace cache.

    Names of arguments stand in place of jit's positions: donating the first argument changes
    `donate_argnums` and `donate_argnames`, which is one change of `x`.
    """
    options = {change.name: change for change in _changed("option", new.options, old.options)}
    for option, change in options.items():
        names = option.replace("argnums", "argnames")
        if option == "donate_argnames":
            given, before = ({*(key.options.get(option) or ())} for key in (new, old))
            yield from (donated(name, name in given) for name in sorted(given ^ before))
        elif names == option or names not in options:
            yield change
    if len(new.exact[0]) == len(old.exact[0]):
        yield from _changed("setting", new.settings, old.settings)
    else:
        yield imported(new.exact[0], old.exact[0])
    yield from _changed("static", new.statics, old.statics, new.defaults)
    for name, now in new.inputs.items():
        if name not in old.inputs:
            yield KeyChange("new", name, now)
    for name, was in old.inputs.items():
        if name not in new.inputs:
            yield KeyChange("gone", name, "", was)
        elif new.inputs[name] != was:
            yield KeyChange("type", name, new.inputs[name], was)
    if new.inputs.keys() == old.inputs.keys():
        # Without the arguments that are static in one of the keys.
        static = {*new.statics, *old.statics} - (new.structures.keys() & old.structures.keys())
        trees = [{n: t for n, t in k.structures.items() if n not in static} for k in (new, old)]
        yield from _changed("structure", *trees)
    for name in sorted(new.keywords ^ old.keywords):
        if all(name in (*key.structures, *key.statics) for key in (new, old)):
            yield KeyChange("calling", name, *_CALLED[name in new.keywords])
    if new.mesh != old.mesh:
        yield KeyChange("mesh", "mesh", _mesh_text(new.mesh), _mesh_text(old.mesh))


def donated(name: str, now: bool) -> KeyChange:
    """Returns the change of an argument whose donation differs."""
    return KeyChange("donated", name, *_DONATED[now])


def imported(new: Sequence[Any], old: Sequence[Any]) -> KeyChange:
    """Returns the change of a trace context to which a module has added settings."""
    return KeyChange(
        "setting", "JAX's settings", f"{len(new)} of them, {_IMPORTED}", f"{len(old)} of them"
    )


def nearest(differences: Iterable[Iterable[KeyChange]]) -> tuple[KeyChange, ...]:
    """Returns the differences to the nearest earlier key.

    Of equally near ones the first by text: JAX's caches have no order.
    """
    return min(map(tuple, differences), key=lambda found: (apart(found), str(found)), default=())


def moved(names: Sequence[str], new: Sequence[Any], old: Sequence[Any]) -> Iterator[KeyChange]:
    """Yields the inputs that lie elsewhere; constants that JAX passes come first."""
    constants = [f"constant {i}" for i in range(len(new) - len(names))]
    return differing("place", zip((*constants, *names), new, old, strict=False), commitment_text)


def differing(
    kind: KeyChangeKind,
    triples: Iterable[tuple[str, Any, Any]],
    text: Callable[[Any], str] = static_text,
) -> Iterator[KeyChange]:
    """Yields the changes among triples of name, new value and old value."""
    for name, now, was in triples:
        if now != was:
            yield KeyChange(kind, name, text(now), text(was))


def _changed(
    kind: KeyChangeKind,
    new: Mapping[str, Any],
    old: Mapping[str, Any],
    defaults: Mapping[str, Any] = {},
) -> Iterator[KeyChange]:
    for name in dict.fromkeys((*new, *old)):
        if name in old and name in new:
            is_other = kind == "static" and type(new[name]) is not type(old[name])  # 2.0 is not 2
            if is_other or _differ(new[name], old[name]):
                yield from _parts(kind, name, new[name], old[name])
        else:
            default = f" (so {static_text(defaults[name])})" if name in defaults else ""
            missing = f"not given{default}"
            texts = (value_text(k[name]) if name in k else missing for k in (new, old))
            yield _change(kind, name, *texts)


def _differ(new: Any, old: Any) -> bool:
    """Whether two values are not equal; a user's `__eq__` that raises finds no equal one."""
    try:
        return bool(new != old)
    except Exception:
        return True


def _parts(kind: KeyChangeKind, name: str, new: Any, old: Any) -> Iterator[KeyChange]:
    """Yields the parts in which two values of one name differ."""
    if kind not in ("static", "structure"):
        now, was = (value_text(value).partition(" on mesh ") for value in (new, old))
        of_meshes = now[0] == was[0] and now[2] != was[2]  # the specs of shardings are equal
        texts = ("".join(text[of_meshes:]).strip() for text in (now, was))
        yield _change(kind, name, *texts)
        return
    for path, now, was in differences(name, new, old):
        if isinstance(now, AuxData) and isinstance(was, AuxData):
            yield _change("field", path, static_text(now.value), static_text(was.value))
        else:
            yield _change(kind, path, _tree_text(now), _tree_text(was))


def _change(kind: KeyChangeKind, name: str, now: str, was: str) -> KeyChange:
    if now != was:
        return KeyChange(kind, name, now, was)
    # The text is that of objects without names, such as "Net(<object>)": only the class is of use.
    text = was.partition("(")[0] if "(" in was and "<" in was else was
    return KeyChange(kind, name, f"another {text}", text)


def _tree_text(value: Any) -> str:
    """Returns the text of a static value or pytree; of an OrderedDict the keys in order."""
    if isinstance(value, PyTreeDef):
        kind, keys = value.node_data() or (None, None)
        if kind is OrderedDict and keys:
            return f"OrderedDict of {', '.join(map(str, keys))}"
    return value_text(value)


def _mesh_text(mesh: Any) -> str:
    return str(dict(mesh.shape)) if getattr(mesh, "shape", None) else "none"


# ---- distances ----------------------------------------------------------------------------------


# The nearest key is the one that a user would call the earlier call. A type in which one axis
# differs is nearer than one of another rank:
#
#     f32[32,784], was f32[31,784]    0.5 + 0.4 / 3
#     f32[32,784], was f32[784]       0.9
#     f32[], was weak f32[]           0.5 + 0.4 * 0.25
#     f32[3], was f32[]               0.9
#     a new array in a container      1.5


def apart(differing: Iterable[KeyChange]) -> float:
    """Returns the distance of two keys, given their differences."""
    return sum(map(_distance, differing))


def _distance(change: KeyChange) -> float:
    if change.kind in ("new", "gone"):
        return 1.5  # another container; fewer of them than values
    if change.kind != "type":
        return 1.0
    parts: list[list[str]] = [_TYPE_PARTS.findall(text) for text in (change.new, change.old)]
    new, old = parts
    if len(new) != len(old):
        return 0.9 + 0.1 * (new[0] != old[0])
    is_weak_alone = change.new.removeprefix("weak ") == change.old.removeprefix("weak ")
    differ = 0.25 if is_weak_alone else sum(map(ne, new, old))
    return 0.5 + 0.4 * differ / len(new)


_TYPE_PARTS = re.compile(r"[^][,]++")  # of `f32[3,4]`: dtype and sizes
_MOST = 256  # earlier keys that a call is compared with
_ENOUGH = 16  # earlier keys of the function that were logged, from which no others are read
_LOST = (
    "was traced before, and JAX's caches hold it no more: jax.clear_caches() or the "
    "function's clear_cache() was called, or the earlier trace failed"
)


def trace_changes(
    new: JaxKey, memory: Sequence[JaxKey], ignored: Sequence[JaxKey] = (), reads: bool = True
) -> Comparison:
    """Returns the differences to the nearest earlier trace of the function, or of its line.

    Args:
        new: The key of the call, which is in JAX's cache already.
        memory: Keys of earlier calls, oldest first.
        ignored: Keys in JAX's cache with which the call is not compared.
        reads: Whether JAX's cache may have others.
    """
    own = _of_function(new, memory)
    if any(key.exact == new.exact for key in own):
        return (KeyChange("lost", new.name, f"the same key {_LOST}"),), len(own)
    # With that many at hand, those of JAX's caches would add little, and take long to read.
    known, reads = [*memory, *ignored], reads and len(own) < _ENOUGH
    cached_own, cached_siblings = _cached(new, known) if reads else ([], [])
    if own or cached_own:
        return _nearest(new, own[::-1], cached_own)[0], len(own) + len(cached_own)
    siblings = [key for key in reversed(memory) if key.origin == new.origin]
    if not siblings and not cached_siblings:
        return (), 0
    differences, old = _nearest(new, siblings, cached_siblings)
    # The plain values that two function objects of one line close over, where they differ.
    closed = (
        KeyChange("closed", name, static_text(value), static_text(old.closed[name]))
        for name, value in new.closed.items()
        if name in old.closed and not same(value, old.closed[name])
    )
    found = (recreated(new.name, new.origin), *differences, *closed)
    return found, len(siblings) + len(cached_siblings)


def lost(new: JaxKey) -> tuple[KeyChange, ...]:
    """Returns the change of a function called in an earlier watch; () if JAX's caches have it."""
    cached = compat.every_trace_key()
    is_lost = cached is not None and not any(
        user_function(inner, rest[1]) is new.function() and (context, rest) != new.exact
        for inner, context, rest in cached
    )
    return (KeyChange("lost", new.name, f"the function {_LOST}"),) if is_lost else ()


def compile_changes(new: JaxKey, memory: Sequence[JaxKey]) -> Comparison:
    """Returns the differences to the nearest earlier compile of the function, of those logged.

    For a call whose trace was in JAX's cache, as another function had called it.

    Args:
        new: The key of the call.
        memory: Keys of earlier calls that compiled, oldest first.
    """
    own = _of_function(new, memory)
    return (_nearest(new, own[::-1])[0] if own else ()), len(own)


def _of_function(new: JaxKey, memory: Sequence[JaxKey]) -> list[JaxKey]:
    """Returns the keys of the same function object."""
    fun = new.function()
    return [key for key in memory if fun is not None and key.function() is fun]


def _nearest(
    new: JaxKey, latest_first: Sequence[JaxKey], cached: Sequence[JaxKey] = ()
) -> tuple[tuple[KeyChange, ...], JaxKey]:
    """Returns the differences to the nearest key, and that key.

    Of equally near ones the latest, else the first by text: JAX's caches have no order.
    """
    ordered = latest_first[:_MOST]
    found: list[tuple[tuple[KeyChange, ...], JaxKey]] = []
    for key in (*ordered, *cached):
        found.append((tuple(changes(new, key)), key))
        if not found[-1][0]:  # none is nearer
            break

    def order(i: int) -> tuple[float, int, str]:
        return apart(found[i][0]), min(i, len(ordered)), str(found[i][0])

    nearest_changes, old = found[min(range(len(found)), key=order)]
    return tuple(_as_place(new, change) for change in nearest_changes), old


def _cached(new: JaxKey, memory: Sequence[JaxKey]) -> tuple[list[JaxKey], list[JaxKey]]:
    """Returns the keys in JAX's trace cache of this function object, and of others of its line.

    Without those in `memory`, and without traces for another function or `jax.eval_shape`.
    """
    fun, here = new.function(), (new.origin.file, new.origin.line)
    own: list[JaxKey] = []
    siblings: list[JaxKey] = []
    for inner, context, rest in compat.every_trace_key() or ():
        if inner is not fun and (place_of(inner) or here) != here:
            continue
        function, exact = user_function(inner, rest[1]), (context, rest)
        is_own = function is fun
        if not (
            (exact == new.exact if is_own else function_origin(function) != new.origin)
            or compat.is_apart(context, new.exact[0])
            or any(key.function() is function and key.exact == exact for key in memory)
            or (context == new.exact[0] and not _is_lowered(inner, rest))
        ):
            key = cached_key(Call(inner, (), {}, signature_of(inner)), *exact)
            (own if is_own else siblings).append(key)
            if len(own) + len(siblings) == _MOST:
                break
    return own, siblings


def cached_functions(new: JaxKey) -> set[Any]:
    """Returns the ids of the functions in JAX's trace cache, and file and line of each.

    Without those that have the new key's entry alone.
    """
    found: set[Any] = set()
    for inner, context, rest in compat.every_trace_key() or ():
        function = user_function(inner, rest[1])
        if function is not new.function() or (context, rest) != new.exact:
            origin = None if (place := place_of(function)) else function_origin(function)
            found |= {id(function), (origin.file, origin.line) if origin else place}
    return found


def _is_lowered(inner: Any, rest: tuple[Any, ...]) -> bool:
    """Whether an entry of the trace cache in the current context was lowered on its own."""
    program = compat.traced_program(inner, rest)
    return program is not None and compat.lower_keys(program) != []


def _as_place(new: JaxKey, change: KeyChange) -> KeyChange:
    """Returns a change of type as a change of place, if only the mesh differs."""
    now, was = TYPE_TEXT.fullmatch(change.new), TYPE_TEXT.fullmatch(change.old)
    if change.kind != "type" or not now or not was or now.group(1, 2, 3) != was.group(1, 2, 3):
        return change
    mesh, before = now[4].strip(), was[4].strip()
    place = (not before and new.places.get(change.name)) or mesh or "on no mesh"
    return KeyChange("place", change.name, place, before or "on no mesh")


def lower_changes(stack: Stack, new: JaxKey | None) -> Comparison:
    """Returns the differences to the nearest earlier lowering of the same trace."""
    program, lowering = stack.program, stack.lowering
    if program is None or lowering is None:
        return (), 0
    cached = compat.lower_keys(SimpleNamespace(params={"jaxpr": program})) or []
    context = compat_events.here()
    keys = [key[:2] for key in cached if key[:2] != (context, lowering)]
    keys = [key for key in keys if not compat.is_apart(key[0], context or ())]
    names = list(new.places) if new else list(compat_events.program_names(program))
    differences = (
        tuple(_lowering_changes(names, (context, lowering), key)) for key in keys[:_MOST]
    )
    return nearest(filter(None, differences)), len(keys)


def _lowering_changes(
    names: Sequence[str], new: tuple[Any, Any], old: tuple[Any, Any]
) -> Iterator[KeyChange]:
    """Yields the differences of two keys of the lowering cache."""
    settings = compat.context_names()
    if new[0] is not None and len(new[0]) != len(old[0]):
        yield imported(new[0], old[0])
    elif new[0] is not None and len(settings) == len(new[0]):
        yield from differing("setting", zip(settings, new[0], old[0], strict=True))
    for option, now, was in zip(LOWERING, new[1], old[1], strict=False):
        if option == "in_shardings":
            yield from moved(names, now, was)
        elif option == "donated_invars":
            ends = (flags[len(flags) - len(names) :] for flags in (now, was))
            for name, is_donated, was_donated in zip(names, *ends, strict=False):
                if is_donated != was_donated:
                    yield donated(name, bool(is_donated))
        elif option == "out_shardings" and len(now) == len(was):
            outputs = (f"{option} of output {i}" if now[1:] else option for i in range(len(now)))
            yield from differing("option", zip(outputs, now, was, strict=True), value_text)
        else:
            yield from differing("option", [(option.removesuffix("_kvs"), now, was)], value_text)


def program_changes(new: Sequence[KeyPart], earlier: Sequence[Sequence[KeyPart]]) -> Comparison:
    """Returns the differences of a program's inputs to those of the nearest earlier one."""
    now = {part.name: part.text for part in new}
    differences = []
    for parts in reversed(earlier):
        was = {part.name: part.text for part in parts}
        triples = ((name, now[name], was[name]) for name in now if name in was)
        differences.append(tuple(differing("type", triples, str)))
    return min(filter(None, differences), key=apart, default=()), len(earlier)
