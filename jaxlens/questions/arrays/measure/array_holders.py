"""What keeps an array alive that no variable leads to: a traceback, a generator, a library, JAX.

Names come from the frames of the last exception's traceback; what has no name even there is
followed through Python's garbage collector, from the array to what refers to it. The collector
does not know the variables of functions that run: what only these hold stays unknown.
"""

import gc
import sys
from collections.abc import Iterator, Sequence
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    MappingProxyType,
    MethodType,
    ModuleType,
    TracebackType,
)
from typing import Any

from jaxlens import compat
from jaxlens.ir.spans import describe
from jaxlens.questions.arrays.live_arrays import TRACEBACK
from jaxlens.questions.arrays.measure.array_names import MACHINERY

_LEVELS = 8  # containers between an array and what is named
_ARRAYS = 200
_THROUGH = (dict, list, tuple, set, frozenset, CellType, MappingProxyType, MethodType)
_LAST = ("last_exc", "last_value")


def made_at(array: Any) -> str:
    """Returns the user's line that made an array: "cell 3:4"; "" if it is unknown."""
    for key, line in compat.made_in(array):
        file = describe(key)
        if not file.library and not file.own:
            return f"{file.name}:{line}"
    return ""


def traceback_names() -> Iterator[tuple[str, Any]]:
    """Yields names with the local variables that the last exception's traceback keeps."""
    errors: list[BaseException | None] = [getattr(sys, name, None) for name in _LAST]
    errors = list({id(error): error for error in errors if error is not None}.values())
    for error in errors:  # grows below: an error may have come from another
        if error is None:
            continue
        kind = type(error).__name__
        trace = error.__traceback__
        while trace is not None:
            frame, trace = trace.tb_frame, trace.tb_next
            package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            if frame.f_locals is frame.f_globals or package in MACHINERY | {"jaxlens"}:
                continue
            place = frame.f_code.co_name
            for name, value in list(frame.f_locals.items()):
                yield f"{name} in {place} ({TRACEBACK} {kind})", value
        for other in (error.__cause__, error.__context__):
            if other is not None and not any(other is seen for seen in errors):
                errors.append(other)


def holders(arrays: Sequence[Any]) -> dict[int, str]:
    """Returns what keeps each array alive, by the identity of the array.

    Args:
        arrays: Arrays that no name leads to; of many only the first are followed.
    """
    arrays = list(arrays[:_ARRAYS])
    found: dict[int, str] = {}
    # Each object on the way, with the arrays that it leads to.
    level: dict[int, tuple[Any, set[int]]] = {id(a): (a, {id(a)}) for a in arrays}
    seen = set(level)
    own = {id(arrays), id(level)}
    for _ in range(_LEVELS if arrays else 0):
        objects = [target for target, _ in level.values()]
        above: dict[int, tuple[Any, set[int]]] = {}
        for holder in gc.get_referrers(*objects):
            if holder is objects or id(holder) in own or id(holder) in seen or _is_ours(holder):
                continue
            led = [level[id(r)][1] for r in gc.get_referents(holder) if id(r) in level]
            reached = set().union(*led) - found.keys()
            if name := _name(holder):
                found |= dict.fromkeys(reached, name)
            elif isinstance(holder, _THROUGH):
                above[id(holder)] = holder, reached
        seen |= above.keys()
        own |= {id(level), id(above), id(objects)}
        level = {n: (o, left) for n, (o, led) in above.items() if (left := led - found.keys())}
        own.add(id(level))
        if not level:
            break
    return found


def _is_ours(holder: Any) -> bool:
    """Whether an object is a part of this search: a frame of jaxlens, or a tuple in `level`."""
    if isinstance(holder, FrameType):
        file = describe(holder.f_code.co_filename)
        return file.own and file.name.startswith("jaxlens/")
    # pairs of an object and a set of identities, as in `holders`
    return isinstance(holder, tuple) and len(holder) == 2 and isinstance(holder[1], set)


def _name(holder: Any) -> str:
    """Returns what an object is, if it says something; "" for a mere container."""
    if isinstance(holder, FrameType):
        place = f"{describe(holder.f_code.co_filename).name}:{holder.f_lineno}"
        return f"a traceback, by the call of {holder.f_code.co_name} that ended at {place}"
    if isinstance(holder, GeneratorType | CoroutineType):
        return f"the suspended {holder.__qualname__}"
    if isinstance(holder, FunctionType):
        # `exec` without a `__name__` makes functions of no module.
        module = holder.__module__ or ""
        if not module.startswith("jaxlens."):
            return f"the function {module}.{holder.__qualname__}".replace(" .", " ")
    if isinstance(holder, dict) and "__name__" in holder and "__spec__" in holder:
        return f"the module {holder['__name__']}"
    if isinstance(holder, (*_THROUGH, ModuleType, CodeType, TracebackType, BuiltinFunctionType)):
        return ""
    kind = type(holder)
    package = kind.__module__.partition(".")[0]
    if kind.__name__ in ("ClosedJaxpr", "Jaxpr") and package == "jax":
        return "JAX, as a constant of a traced program"
    if package in ("jax", "jaxlib"):
        return f"JAX, in a {kind.__name__}"
    return f"an object of {kind.__module__}.{kind.__qualname__}"
