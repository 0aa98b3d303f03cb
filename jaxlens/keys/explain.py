"""Explains the misses of a call, one of JAX's caches after the other.

A call is compared with earlier ones of the same function object, whose keys are in JAX's caches,
and of other function objects that the same line of Python created. Only a log has the latter: JAX
identifies a function by the object, and drops its keys when the object is deleted.
"""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from jaxlens import compat
from jaxlens.call import equinox_calls
from jaxlens.call.arguments.inputs import signature_of, static_text
from jaxlens.call.call import Call
from jaxlens.compat import events as compat_events
from jaxlens.compat.events import LOWERING, Stack
from jaxlens.ir.compile_log import TYPE_TEXT, KeyChange, KeyPart
from jaxlens.keys.changes import (
    Comparison,
    apart,
    changes,
    differing,
    donated,
    imported,
    moved,
    nearest,
)
from jaxlens.keys.function_origin import function_origin, is_elsewhere, recreated
from jaxlens.keys.jax_key import JaxKey, cached_key, user_function, value_text
from jaxlens.keys.value_diff import same

_MOST = 256  # earlier keys that a call is compared with
_ENOUGH = 16  # earlier keys of the function that were logged, from which no others are read
_LOST = (
    "was traced before, and JAX's caches hold it no more: jax.clear_caches() or the "
    "function's clear_cache() was called, or the earlier trace failed"
)


def trace_changes(
    new: JaxKey, memory: Sequence[JaxKey], ignored: Sequence[JaxKey] = ()
) -> Comparison:
    """Returns the differences to the nearest earlier trace of the function, or of its line.

    Args:
        new: The key of the call, which is in JAX's cache already.
        memory: Keys of earlier calls, oldest first.
        ignored: Keys in JAX's cache with which the call is not compared.
    """
    own = _of_function(new, memory)
    if any(key.exact == new.exact for key in own):
        return (KeyChange("lost", new.name, f"the same key {_LOST}"),), len(own)
    # With that many at hand, those of JAX's caches would add little, and take long to read.
    known = [*memory, *ignored]
    cached_own, cached_siblings = _cached(new, known) if len(own) < _ENOUGH else ([], [])
    own = [*reversed(own), *cached_own]
    if own:
        return _nearest(new, own)[0], len(own)
    siblings = [key for key in reversed(memory) if key.origin == new.origin] + cached_siblings
    if not siblings:
        return (), 0
    differences, old = _nearest(new, siblings)
    # The plain values that two function objects of one line close over, where they differ.
    closed = (
        KeyChange("closed", name, static_text(value), static_text(old.closed[name]))
        for name, value in new.closed.items()
        if name in old.closed and not same(value, old.closed[name])
    )
    return (recreated(new.name, new.origin), *differences, *closed), len(siblings)


def lost(new: JaxKey) -> tuple[KeyChange, ...]:
    """Returns the change of a function called in an earlier watch; () if JAX's caches have it."""
    cached = compat.every_trace_key()
    others = [
        inner
        for inner, context, rest in cached or ()
        if user_function(inner, rest[1]) is new.function() and (context, rest) != new.exact
    ]
    is_lost = cached is not None and not others
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


def _nearest(new: JaxKey, keys: Sequence[JaxKey]) -> tuple[tuple[KeyChange, ...], JaxKey]:
    """Returns the differences to the nearest key, and that key, of several the first."""
    differences = ((tuple(changes(new, key)), key) for key in keys[:_MOST])
    nearest_changes, old = min(differences, key=lambda pair: apart(pair[0]))
    return tuple(_as_place(new, change) for change in nearest_changes), old


def _cached(new: JaxKey, memory: Sequence[JaxKey]) -> tuple[list[JaxKey], list[JaxKey]]:
    """Returns the keys in JAX's trace cache of this function object, and of others of its line.

    Without those in `memory`, and without traces for another function or `jax.eval_shape`.
    """
    fun = new.function()
    keys: list[tuple[bool, JaxKey]] = []
    for inner, context, rest in compat.every_trace_key() or ():
        is_plain = inner is not fun and not equinox_calls.is_equinox(inner)
        if is_plain and is_elsewhere(inner, new.origin):
            continue
        function, exact = user_function(inner, rest[1]), (context, rest)
        is_own = function is fun
        if exact == new.exact if is_own else function_origin(function) != new.origin:
            continue
        if compat.is_apart(context, new.exact[0]):
            continue
        if any(key.function() is function and key.exact == exact for key in memory):
            continue
        if context == new.exact[0] and not _is_lowered(inner, rest):
            continue
        call = Call(inner, (), {}, signature_of(inner))
        keys.append((is_own, cached_key(call, *exact)))
        if len(keys) == _MOST:
            break
    return [key for own, key in keys if own], [key for own, key in keys if not own]


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
        differences.append(list(differing("type", triples, str)))
    return nearest(filter(None, differences), apart), len(earlier)
