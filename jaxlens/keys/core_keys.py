"""Reads the keys of functions that `jaxlens.core` jitted: plain data, never dropped."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaxlens.call.arguments.inputs import static_text
from jaxlens.call.call import open_call
from jaxlens.call.traceable import function_name
from jaxlens.errors import first_line
from jaxlens.ir.compile_log import CallKey, KeyChange, KeyPart
from jaxlens.ir.facts import Verdict
from jaxlens.keys.changes import EAGER, differing, nearest
from jaxlens.keys.jax_keys import JaxKeys

_SETTINGS = ("device", "axes", "x64")


class CoreKeys:
    """A call of a function of the core's, its key, and the keys of earlier calls.

    Args:
        f: A function that the core jitted, or one of the user's that calls the core.
        args: Positional arguments.
        kwargs: Keyword arguments.
        name: The function's name.
    """

    def __init__(self, f: Any, args: Sequence[Any], kwargs: Mapping[str, Any], name: str) -> None:
        self.name = name
        self._f = f
        self._args = args
        self._kwargs = kwargs

    def verdict(self) -> Verdict:
        """Returns whether the call would hit; if not, the differences to the nearest key."""
        from jaxlens import core

        if not isinstance(self._f, core.Jitted):
            return Verdict(None, reasons=(EAGER.format(name=self.name),))
        try:
            new, keys = self._f.key(*self._args, **self._kwargs), self._f.cache_keys()
            hit = new in keys
        except (TypeError, ValueError) as error:
            reason = f"jaxlens.core would refuse this call: {first_line(error)}"
            return Verdict(None, reasons=(reason,))
        if hit:
            return Verdict(True, earlier=len(keys))
        if not keys:
            return Verdict(False, "trace", ("never called before",))
        reasons = tuple(map(str, nearest(changes(self._f, new, key) for key in keys)))
        return Verdict(False, "trace", reasons, len(keys))

    def parts(self) -> tuple[tuple[KeyPart, ...], tuple[KeyPart, ...]]:
        """Returns the rows of the key, and () as the core has no defaults."""
        return parts(self._f, self._f.key(*self._args, **self._kwargs)), ()


def parts(f: Any, key: Any) -> tuple[KeyPart, ...]:
    """Returns a key as rows: inputs, static values, settings.

    Args:
        f: A function that the core jitted.
        key: One of its keys.
    """
    inputs = (
        KeyPart(n, "input", _type(a)) for n, a in zip(_names(f, key), key.in_avals, strict=True)
    )
    statics = (KeyPart(_parameter(f, at), "static", static_text(v)) for at, _, v in key.static)
    settings = (KeyPart(name, "setting", static_text(getattr(key, name))) for name in _SETTINGS)
    return (*inputs, *statics, *settings)


def changes(f: Any, new: Any, old: Any) -> Iterator[KeyChange]:
    """Yields the differences of two keys of a function that the core jitted."""
    if new.in_tree != old.in_tree:
        yield KeyChange("structure", "arguments", str(new.in_tree), str(old.in_tree))
    else:
        for name, now, was in zip(_names(f, new), new.in_avals, old.in_avals, strict=True):
            if now != was:
                yield KeyChange("type", name, _type(now), _type(was))
    before = {at: value for at, _, value in old.static}
    for at, _, value in new.static:
        if at not in before or before[at] != value:
            was = static_text(before[at]) if at in before else "none"
            yield KeyChange("static", _parameter(f, at), static_text(value), was)
    settings = ((name, getattr(new, name), getattr(old, name)) for name in _SETTINGS)
    yield from differing("setting", settings)


def _names(f: Any, key: Any) -> list[str]:
    """Returns the paths of a call's arrays."""
    from jaxlens.core.transforms.signatures import arguments

    return [name for _, name in arguments(f.f, key.in_tree, key.static)]


def _parameter(f: Any, at: int | str) -> str:
    """Returns the name of a static argument, given its position or name."""
    from jaxlens.core.transforms.signatures import parameters

    names = parameters(f.f)[0]
    return names[at] if isinstance(at, int) and at < len(names) else str(at)


def _type(aval: Any) -> str:
    return f"{'weak ' if aval.weak_type else ''}{aval.str_short()}"


def call_key(f: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> CallKey:
    """Returns the key of `f(*args, **kwargs)`, and whether it is in the caches.

    Args:
        f: A function; of one that is not jitted, the key that its jit would have.
        args: Positional arguments, arrays or `jax.ShapeDtypeStruct`s.
        kwargs: Keyword arguments.
    """
    name = function_name(f)
    core = sys.modules.get("jaxlens.core")  # imported by whoever made the function
    keys: CoreKeys | JaxKeys
    if core is not None and isinstance(f, core.Jitted):
        keys = CoreKeys(f, args, kwargs, name)
    else:
        keys = JaxKeys(open_call(f, tuple(args), dict(kwargs)), name)
    verdict = keys.verdict()
    try:
        parts, defaults = keys.parts()
    except (TypeError, ValueError, OverflowError):  # the verdict says why
        parts, defaults = (), ()
    return CallKey(name, parts, verdict, defaults)
