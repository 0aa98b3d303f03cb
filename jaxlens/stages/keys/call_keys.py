"""The key of a call that JAX is about to work on, and what is new in it: our own diff, all layers.

A call is compared with the earlier ones of the same function object, which JAX's caches hold, and
with those of other objects made by the same line of Python, which only a log can remember: JAX
knows a function by its identity and forgets it when it dies.
"""

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import jax

from jaxlens.ir.compile_log import TYPE, Change, Part
from jaxlens.stages import compat
from jaxlens.stages.arguments import closed_values, equinox_calls
from jaxlens.stages.arguments.inputs import signature_of, static_text
from jaxlens.stages.arguments.value_diff import same
from jaxlens.stages.call.calls import function_name
from jaxlens.stages.call.function_origin import Place, made_anew, place_of
from jaxlens.stages.call.opened import Opened
from jaxlens.stages.compat import events as compat_events
from jaxlens.stages.compat.events import LOWERING, Caller, Stack
from jaxlens.stages.keys import cache

_MOST = 256  # earlier keys that a call is compared with

# Settings that are worth a row where nothing was asked about settings.
_SHOWN = ("jax_enable_x64", "jax_default_matmul_precision", "jax_default_device")


@dataclass(slots=True)
class Met:
    """One call's key.

    Attributes:
        fun: Gives the function object while it lives; the user's, in one that Equinox made.
        name: The function's name.
        place: Where the function object came from.
        key: What it is traced by.
        places: Where each input lies, by name.
        holders: What holds each input, by name.
        exact: The key as JAX has it: trace context, and jit's settings, signature, types, mesh.
        inner: Gives the function object that JAX traces while it lives, or an equal one.
        closed: Plain values that the function closes over, by name.
        parts: The key as rows.

    It keeps neither the function nor an array alive: a watched program frees what it would free.
    """

    fun: Callable[[], Any]
    name: str
    place: Place
    key: cache.Key
    places: dict[str, str]
    holders: dict[str, str]
    exact: tuple[Any, tuple[Any, ...]]
    inner: Callable[[], Any]
    closed: dict[str, Any]
    parts: tuple[Part, ...] = field(default=())


def met(caller: Caller, place: Place | None = None) -> Met | None:
    """The key of a call that is on the stack; None where this version of JAX hides it."""
    opened = Opened(caller.fun, caller.args, caller.kwargs, signature_of(caller.fun))
    return of_call(opened, caller.info, place)


def of_call(opened: Opened, info: Any, place: Place | None = None) -> Met | None:
    """The key of a call of a jitted function.

    Args:
        opened: The Python function inside, and the arguments.
        info: Its jit's settings.
        place: Where the function came from, where that is known.

    Raises:
        TypeError: An argument is no array and not marked static.
        ValueError: A static argument cannot be hashed.
    """
    asked = compat.trace_key(info, opened.args, opened.kwargs)
    if asked is None:
        return None
    exact, leaves = asked
    key = cache.key_of(opened, *exact)
    names = list(key.inputs)
    function = named_function(opened.function, exact[1][1])
    found = Met(
        _reference(user_function(opened.function, exact[1][1])),
        function_name(function),
        place or place_of(function),
        key,
        {name: lies(leaf) for name, leaf in zip(names, leaves, strict=False)},
        {name: holder(leaf) for name, leaf in zip(names, leaves, strict=False)},
        exact,
        _again(opened.function),
        {**closed_values.inside(function), **closed_values.values(function)},
    )
    found.parts = tuple(parts(found))
    return found


def parts(found: Met, every: bool = False) -> Iterable[Part]:
    """A key as rows: inputs, static values, containers, options, settings.

    Args:
        found: The call.
        every: Whether options and settings that are as always are listed too.
    """
    key = found.key
    for name, text in key.inputs.items():
        yield Part(name, "input", text, found.places.get(name, ""), found.holders.get(name, ""))
    for name, value in key.statics.items():
        yield Part(name, "static", static_text(value))
    for name, tree in key.structures.items():
        if every or tree.num_leaves != 1 or tree.num_nodes != 1:
            yield Part(name, "structure", static_text(tree))
    for name, value in key.settings.items():
        if every or not _is_default(name, value):
            yield Part(name, "option", static_text(value))
    for name, value in cache.settings(key).items():
        if every or (name in _SHOWN and value is not None and value is not False):
            yield Part(name, "setting", static_text(value))


def _is_default(name: str, value: Any) -> bool:
    """Whether an option of jit is what jit makes of one that was not given."""
    if name.endswith("_treedef") or name == "inline":  # containers of the options below
        return True
    if value is None or value is False or (isinstance(value, tuple) and not value):
        return True
    return "Unspecified" in repr(value) or repr(value) == "(None,)"


def named_function(fun: Any, signature: Any) -> Any:
    """What the user calls, in a function that Equinox made for it; or `fun` itself."""
    fixed = compat.static_values(signature)
    found = equinox_calls.user_function(fun, fixed[0]) if fixed else None
    return fun if found is None else found


def user_function(fun: Any, signature: Any) -> Any:
    """The object by which a function is told from others: a model's parts are in the key."""
    found = named_function(fun, signature)
    return found if jax.tree_util.all_leaves([found]) else fun


def _reference(fun: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(fun)
    except TypeError:
        return lambda: None


def _again(fun: Any) -> Callable[[], Any]:
    """The function while it lives, or one of the same code where it closes over plain values."""
    living, recipe = _reference(fun), closed_values.recipe(fun)

    def found() -> Any:
        held = living()
        return held if held is not None or recipe is None else recipe()

    return found


def lies(leaf: Any) -> str:
    """Where an argument lies, as far as the compile's key tells."""
    sharding = getattr(leaf, "sharding", None)
    if sharding is None or isinstance(leaf, jax.core.Tracer):
        return ""
    return cache.where(sharding if getattr(leaf, "committed", True) else None)


def holder(leaf: Any) -> str:
    """What holds an argument: the fast path tells them apart."""
    if isinstance(leaf, jax.core.Tracer):
        return "tracer"
    if isinstance(leaf, jax.Array):
        return "jax.Array"
    kind = type(leaf)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}."
    return f"{module}{kind.__name__}"


@dataclass(frozen=True, slots=True)
class Told:
    """What is new in a call: what differs from the nearest earlier key, and how many there were."""

    changes: tuple[Change, ...] = ()
    earlier: int = 0


def trace_changes(new: Met, memory: Sequence[Met]) -> Told:
    """What differs from the nearest earlier trace of the function, or of its line.

    Args:
        new: The call; JAX has made its entry already.
        memory: Calls met before, oldest first.
    """
    fun = new.fun()
    same = [m for m in memory if fun is not None and m.fun() is fun]
    if any(m.exact == new.exact for m in same):
        return Told((Change("lost", new.name, LOST),), len(same))
    held = _held(new, memory)
    keys = [m.key for m in reversed(same)] + [key for own, key in held if own]
    if keys:
        near = _nearest(new.key, keys)
        return Told(tuple(_placed(new, change) for change in near), len(keys))
    others = [(m.key, m.closed) for m in reversed(memory) if m.place == new.place]
    others += [(key, {}) for own, key in held if not own]
    if not others:
        return Told()
    near = _nearest(new.key, [key for key, _ in others])
    was = next(closed for key, closed in others if tuple(_plainer(new.key, key)) == near)
    made = made_anew(new.name, new.place)
    return Told((made, *near, *_closed_changes(new.closed, was)), len(others))


def _closed_changes(new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterable[Change]:
    """The plain values that two function objects of one line close over, where they differ."""
    for name, value in new.items():
        if name in old and not same(value, old[name]):
            yield Change("closed", name, static_text(value), static_text(old[name]))


LOST = (
    "the same key was traced before, and JAX's caches hold it no more: jax.clear_caches() was "
    "called, or the earlier trace failed"
)


def _held(new: Met, memory: Sequence[Met]) -> list[tuple[bool, cache.Key]]:
    """What JAX holds of this function object (True), and of others of its line (False).

    What is remembered anyway is left out.
    """
    fun, found = new.fun(), []
    for inner, context, rest in compat_events.every_trace_key():
        held = user_function(inner, rest[1])
        own = held is fun
        if (own and (context, rest) == new.exact) or (not own and place_of(held) != new.place):
            continue
        if compat.is_apart(context, new.exact[0]):
            continue
        if any(m.fun() is held and m.exact == (context, rest) for m in memory):
            continue
        call = Opened(inner, (), {}, signature_of(inner))
        found.append((own, cache.key_of(call, context, rest)))
    return found[:_MOST]


def _nearest(new: cache.Key, keys: Sequence[cache.Key]) -> tuple[Change, ...]:
    """The differences to the key that has the fewest; the first of several."""
    found = [tuple(_plainer(new, key)) for key in keys[:_MOST]]
    return min(found, key=cache.apart)


def _placed(new: Met, change: Change) -> Change:
    """A type that only got another mesh, said as where the input lies."""
    now, was = TYPE.fullmatch(change.new), TYPE.fullmatch(change.old)
    if change.kind != "type" or not now or not was or now.group(1, 2, 3) != was.group(1, 2, 3):
        return change
    lies = new.places.get(change.name) or now[4].strip() or "on no mesh"
    return Change("place", change.name, lies, was[4].strip() or "on no mesh")


def _plainer(new: cache.Key, old: cache.Key) -> Iterable[Change]:
    """The differences, jit's positions said by the names of the arguments."""
    found = list(cache.changes(new, old))
    options = {change.name for change in found if change.kind == "option"}
    donated = new.settings.get("donate_argnames"), old.settings.get("donate_argnames")
    for change in found:
        if change.kind != "option":
            yield change
        elif change.name == "donate_argnames":
            now, was = ({*names} if names else set() for names in donated)
            for name in sorted(now ^ was):
                yield Change("donated", name, *_DONATED[name in now])
        elif change.name.replace("argnums", "argnames") not in options - {change.name}:
            yield change


_DONATED = {True: ("donated", "not donated"), False: ("not donated", "donated")}


def lower_changes(stack: Stack, new: Met | None) -> Told:
    """What differs from the nearest earlier lowering of the same trace."""
    program, mine = stack.program, stack.lowering
    if program is None or mine is None:
        return Told()
    held = compat.lower_keys(SimpleNamespace(params={"jaxpr": program})) or []
    here = compat_events.here()
    keys = [(c, a) for c, a, _ in held if not (c == here and a == mine)]
    keys = [(c, a) for c, a in keys if not compat.is_apart(c, here or ())]
    if not keys:
        return Told()
    names = list(new.places) if new else list(compat_events.program_names(program))
    found = [tuple(_lowering(names, (here, mine), key)) for key in keys[:_MOST]]
    return Told(min((f for f in found if f), key=len, default=()), len(keys))


def _lowering(names: Sequence[str], new: tuple[Any, Any], old: tuple[Any, Any]) -> Iterable[Change]:
    """Each thing that differs between two keys of the lowering cache."""
    settings = compat.context_names()
    if new[0] is not None and len(new[0]) != len(old[0]):
        now, was = (f"{len(key[0])} of them" for key in (new, old))
        yield Change("setting", "JAX's settings", f"{now}, {cache.IMPORTED}", was)
    elif new[0] is not None and len(settings) == len(new[0]):
        for name, now, was in zip(settings, new[0], old[0], strict=True):
            if now != was:
                yield Change("setting", name, static_text(now), static_text(was))
    for option, now, was in zip(LOWERING, new[1], old[1], strict=False):
        if option == "in_shardings":
            yield from cache.moved(names, now, was)
        elif option == "donated_invars":
            yield from _donated(names, now, was)
        elif now != was:
            yield Change("option", option, static_text(now), static_text(was))


def _donated(names: Sequence[str], new: Sequence[bool], old: Sequence[bool]) -> Iterable[Change]:
    for name, now, was in zip(
        names, new[len(new) - len(names) :], old[len(old) - len(names) :], strict=False
    ):
        if now != was:
            yield Change("donated", name, *_DONATED[bool(now)])


def entry_changes(new: Met, memory: Sequence[Met]) -> Told:
    """What differs for the fast path, which looks at how arguments are held and where they lie."""
    fun = new.fun()
    same = [m for m in memory if fun is not None and m.fun() is fun and m.exact == new.exact]
    found = [tuple(_held_otherwise(new, old)) for old in reversed(same)]
    return Told(min(found, key=len, default=()), len(same))


def _held_otherwise(new: Met, old: Met) -> Iterable[Change]:
    for name, now in new.holders.items():
        was = old.holders.get(name, now)
        if now != was:
            yield Change("holder", name, now, was)
        elif new.places.get(name) != old.places.get(name, new.places.get(name)):
            yield Change("place", name, new.places[name], old.places[name])


def program_changes(new: Sequence[Part], earlier: Sequence[Sequence[Part]]) -> Told:
    """What differs between the inputs of a program and those of the nearest earlier one."""
    now = {part.name: part.text for part in new}
    found = []
    for parts in reversed(earlier):
        was = {part.name: part.text for part in parts}
        both = [name for name in now if name in was and now[name] != was[name]]
        found.append(tuple(Change("type", name, now[name], was[name]) for name in both))
    near = min(filter(None, found), key=cache.apart, default=())
    return Told(near, len(earlier))
