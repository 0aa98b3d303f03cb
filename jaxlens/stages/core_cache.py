"""Would this very call hit the cache of a function that `jaxlens.core` jitted, and what is new?

The core's keys are data, so they are compared as they are; nothing is traced and nothing counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaxlens.ir.facts import Verdict
from jaxlens.stages.cache import EAGER
from jaxlens.stages.inputs import static_text


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
    found = [tuple(_differences(f, wanted, key)) for key in keys]
    return Verdict(False, "trace", min(found, key=len), len(keys))


def _differences(f: Any, new: Any, old: Any) -> Iterator[str]:
    """One line for each thing that differs between two keys."""
    from jaxlens.core.signatures import arguments, parameters

    if new.in_tree != old.in_tree:
        yield f"the arguments' containers: {new.in_tree}, were {old.in_tree}"
    else:
        names = [name for _, name in arguments(f.f, new.in_tree, new.static)]
        for name, now, was in zip(names, new.in_avals, old.in_avals, strict=True):
            if now is not was:
                yield f"{name}: {_type(now)}, was {_type(was)}"
    before = {where: value for where, _, value in old.static}
    for where, _, value in new.static:
        if where not in before or before[where] != value:
            was = static_text(before[where]) if where in before else "none"
            known = parameters(f.f)[0]
            name = known[where] if isinstance(where, int) and where < len(known) else where
            yield f"{name}: static value {static_text(value)}, was {was}"
    for name in ("device", "axes", "x64"):
        if getattr(new, name) != getattr(old, name):
            yield f"{name}: {getattr(new, name)}, was {getattr(old, name)}"


def _type(aval: Any) -> str:
    return f"{aval.str_short()}{' weak' if aval.weak_type else ''}"
