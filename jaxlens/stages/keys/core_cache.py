"""Would this very call hit the cache of a function that `jaxlens.core` jitted, and what is new?

The core's keys are data, so they are compared as they are; nothing is traced and nothing counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaxlens.ir.compile_log import Change
from jaxlens.ir.facts import Verdict
from jaxlens.stages.arguments.inputs import static_text
from jaxlens.stages.keys.cache import EAGER


def verdict(f: Any, args: Sequence[Any], kwargs: Mapping[str, Any], name: str) -> Verdict:
    """Says whether the call would hit.

    Args:
        f: A function of the core's, or of the user's that calls it.
        args: Positional arguments.
        kwargs: Keyword arguments.
        name: The function's name.
    """
    from jaxlens import core

    if not isinstance(f, core.Jitted):
        return Verdict(None, reasons=(EAGER.format(name=name),))
    try:
        wanted, keys = f.key(*args, **kwargs), f.cache_keys()
        hit = wanted in keys
    except (TypeError, ValueError) as error:
        line = (str(error).splitlines() or [type(error).__name__])[0][:160]
        return Verdict(None, reasons=(f"jaxlens.core would refuse this call: {line}",))
    if hit:
        return Verdict(True, earlier=len(keys))
    if not keys:
        return Verdict(False, "trace", ("never called before",))
    found = [tuple(map(str, changes(f, wanted, key))) for key in keys]
    return Verdict(False, "trace", min(found, key=len), len(keys))


def changes(f: Any, new: Any, old: Any) -> Iterator[Change]:
    """Each thing that differs between two keys of the core's."""
    from jaxlens.core.signatures import arguments

    if new.in_tree != old.in_tree:
        yield Change("structure", "arguments", str(new.in_tree), str(old.in_tree))
    else:
        names = [name for _, name in arguments(f.f, new.in_tree, new.static)]
        for name, now, was in zip(names, new.in_avals, old.in_avals, strict=True):
            if now is not was:
                yield Change("type", name, type_text(now), type_text(was))
    before = {where: value for where, _, value in old.static}
    for where, _, value in new.static:
        if where not in before or before[where] != value:
            was = static_text(before[where]) if where in before else "none"
            yield Change("static", static_name(f, where), static_text(value), was)
    for name in ("device", "axes", "x64"):
        if getattr(new, name) != getattr(old, name):
            now, was = static_text(getattr(new, name)), static_text(getattr(old, name))
            yield Change("setting", name, now, was)


def static_name(f: Any, where: int | str) -> str:
    """How a static argument is written, by its position or name."""
    from jaxlens.core.signatures import parameters

    known = parameters(f.f)[0]
    return known[where] if isinstance(where, int) and where < len(known) else str(where)


def type_text(aval: Any) -> str:
    """The type of an input of a core key, weak ones told."""
    return f"{'weak ' if aval.weak_type else ''}{aval.str_short()}"
