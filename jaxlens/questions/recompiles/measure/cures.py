"""Proposes a cure for each recompile, and tests it if possible.

There are three kinds of test. No program is compiled or run; a trace runs the function's Python
once more, with its prints discarded.

- The key without the change is compared with the nearest earlier key. If nothing else differs, the
  call would have been a hit (settings, containers, devices, options, types).
- The call is traced with the cure applied (`retrace.py`): static or closed-over numbers as data.
- The programs are compared: of new function objects, of static objects with identity equality.

A cure without a test says so. That is the case if the function was garbage-collected, if other
differences remain (they are named), if a static value that is not a number should take fewer
values, and if shapes should be padded.

Cures for operations outside of jit (bodies of loops, lines of ops) are in `report.py`: they are for
a line of the user's, not for a call.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jaxlens.ir.compile_log import (
    CallEvent,
    CompileLog,
    Cure,
    KeyChange,
    container,
    field_name,
    recreated_objects,
    root,
)
from jaxlens.keys.jax_key import JaxKey
from jaxlens.program.sentences import every, listed
from jaxlens.questions.recompiles.measure import retrace

_NAMED = 3  # most names in one cure, which is one sentence
_HIT = "the nearest earlier key differs in nothing else, so that call would have been a hit"


@dataclass(frozen=True, slots=True)
class RecompileCause:
    """Recompiles of one function for one reason.

    Attributes:
        calls: The calls that recompiled it, oldest first.
        log: The log that contains them.
        key: The key of the last of them; None if it is unknown.
    """

    calls: Sequence[CallEvent]
    log: CompileLog
    key: JaxKey | None

    @property
    def last(self) -> CallEvent:
        """The last call that recompiled."""
        return self.calls[-1]

    @property
    def name(self) -> str:
        """Name of the argument, option or setting that changed."""
        return self.last.main.name

    @property
    def is_new_object(self) -> bool:
        """Whether the value is a different object with the same text at each call.

        Values that differ beyond the end of a shortened text are not.
        """
        new = self.last.main.new
        return new.startswith("another ") and "..." not in new

    @property
    def of_library(self) -> bool:
        """Whether no file of the user's defines the function."""
        return self.last.defined is None or self.last.defined.library

    @property
    def values(self) -> list[str]:
        """The values of the changed part in all calls, preceded by its value before the first."""
        changes = [call.main for call in self.calls]
        return list(dict.fromkeys([changes[0].old, *(change.new for change in changes)]))

    def every(self, kind: str) -> list[KeyChange]:
        """Returns the changes of a kind in all calls."""
        return [change for call in self.calls for change in call.changes if change.kind == kind]

    def names(self, *kinds: str) -> list[str]:
        """Returns the names of the changes of these kinds in the last call."""
        return list(dict.fromkeys(c.name for c in self.last.changes if c.kind in kinds))

    def differs_too(self, *kinds: str) -> str:
        """Returns the sentence that the last call differs in more than its main change; "" if not.

        Args:
            kinds: The kinds of changes that follow from the main one; by default those of its kind.
        """
        main = self.last.main
        kinds = kinds or (main.kind,)
        rest = [c.name for c in self.last.changes if c is not main and c.kind not in kinds]
        rest = [*map(root, rest)] if len(rest) > _NAMED else rest
        return f"the nearest earlier key differs in {listed_names(rest)} too" if rest else ""

    def programs(self) -> tuple[int, int]:
        """Counts the programs of the function with the last call's avals, and the distinct ones.

        Returns (0, 0) if there are no two programs to compare.
        """
        last = self.last
        programs = [
            call.program
            for call in self.log.compiles
            if call.identity[:2] == last.identity[:2]
            and call.program
            and _input_types(call) == _input_types(last)
        ]
        return (len(programs), len(set(programs))) if len(programs) > 1 else (0, 0)

    def equal_programs(self) -> str:
        """Returns the sentence that all programs are equal; "" if they are not."""
        count, different = self.programs()
        return f"their programs were compared: {every(count)} are equal" if different == 1 else ""


def _input_types(call: CallEvent) -> tuple[str, ...]:
    return tuple(part.text for part in call.parts if part.kind == "input")


def listed_names(names: Sequence[str]) -> str:
    """Returns "a, b and c", each name once; of many names the first, and a count of the rest."""
    return listed(list(dict.fromkeys(names)), _NAMED)


def with_cures(log: CompileLog, keys: Mapping[int, JaxKey] | None) -> CompileLog:
    """Returns the log with a cure at the last recompile of each cause.

    Args:
        log: The log of a watch that has ended.
        keys: The keys of its calls, by number. With None nothing is traced again, and there is no
            cure where the key or a trace decides which.
    """
    causes: dict[Any, list[CallEvent]] = {}
    for call in log.recompiles:
        # A backward pass has inputs without names, and recompiles as its function does.
        if not (call.under and call.main.name.startswith("input ")):
            causes.setdefault((call.identity, call.cause), []).append(call)
    cures = {}
    for calls in causes.values():
        make_cure, number = _CURES.get(calls[-1].main.kind), calls[-1].number
        recompile = RecompileCause(calls, log, (keys or {}).get(number))
        if make_cure is not None and not (keys is None and _needs_key(recompile)):
            cures[number] = make_cure(recompile)
    calls = [
        replace(call, cure=cures.get(call.number)) if call.role == "user" else call
        for call in log.calls
    ]
    return replace(log, calls=tuple(calls))


def _needs_key(cause: RecompileCause) -> bool:
    """Whether the key, or a trace, decides which cure there is."""
    kind = cause.last.main.kind
    is_new_field = kind == "field" and cause.is_new_object
    return is_new_field or kind == "static" or (kind == "function" and not cause.equal_programs())


# ---- functions ----------------------------------------------------------------------------------


def _cure_new_function(cause: RecompileCause) -> Cure:
    """Cure for a new function object at each call: create it once."""
    line = cause.last.line
    each = f", not for each call at {line.file}:{line.line}" if line else ""
    text = f"make the jitted function only once{each}"
    if equal := cause.equal_programs():
        return Cure(f"{text}, and call that object", equal)
    names = list(dict.fromkeys(change.name for change in cause.every("closed")))
    if names and all(map(str.isidentifier, names)) and cause.key is not None:
        return _cure_closed_values(text, names, cause, cause.key)
    count, different = cause.programs()
    tried = cause.differs_too("closed")
    if count:
        tried = f"of {count} programs {different} differ: each object closes over other values"
    if names:
        roots = listed_names([re.split(r"[\[.]", name)[0] for name in names])
        return Cure(f"keep one jitted function for each {roots}, or pass what differs in it", tried)
    values = ", with what it closes over as arguments" if count else ""
    return Cure(f"{text}, and call that object{values}", tried)


def _cure_closed_values(
    text: str, names: Sequence[str], cause: RecompileCause, key: JaxKey
) -> Cure:
    """Cure for a function that closes over different values: pass them as arguments."""
    closed = listed_names(names)
    failure = retrace.try_closed_as_data(key, names)
    if failure is None:
        return Cure(f"{text}, with {closed} as an argument")
    if failure:
        return Cure(
            f"make one jitted function for each value of {closed}, and keep them",
            f"with {closed} as data tracing fails ({failure}): it is part of the program",
            traced=True,
        )
    each = [[c for c in call.changes if c.kind == "closed"] for call in cause.calls]
    values = [", ".join(f"{c.name}={c.old}" for c in each[0])]
    values += [", ".join(f"{c.name}={c.new}" for c in changes) for changes in each]
    return _traced(f"{text}, with {closed} as an argument", list(dict.fromkeys(values)))


def _traced(text: str, values: Sequence[str]) -> Cure:
    """Cure that was traced with the last of these values; other types are other programs."""
    types = {_NUMBER.sub(_number_type, value) for value in values}
    is_shortened = any("..." in value for value in values)
    served = f"{every(len(values))} values"
    if len(types) > 1 or is_shortened:
        served = "all values of one type and structure"
    return Cure(text, f"traced so: it works, and one program serves {served}", traced=True)


# A number in the text of a value. Complex ones are left as they are, and so count as types apart.
_NUMBER = re.compile(r"(?<![\w.])(True|False|-?(?:\d[\d.]*(?:e[+-]?\d+)?|inf|nan))\b")


def _number_type(number: re.Match[str]) -> str:
    if number[0] in ("True", "False"):
        return "bool"
    return "int" if number[0].lstrip("-").isdigit() else "float"


# ---- static values ------------------------------------------------------------------------------


def _cure_static_value(cause: RecompileCause) -> Cure:
    """Cure for a static value that changes: pass it as data."""
    last, name, key = cause.last, cause.name, cause.key
    old, new = last.main.old, last.main.new
    is_default = old == f"not given (so {new})" or new == f"not given (so {old})"
    if len(last.changes) == 1 and is_default:
        return Cure(f"pass {name} at every call, or at none", "both mean the same, but not to JAX")
    keep = Cure(f"{name} is part of the program: give it fewer different values, each is a compile")
    if key is None:
        return keep
    steps = retrace.locate(key.statics, name)
    value = retrace.part(key.statics, steps) if steps is not None else None
    # The `__eq__` of `object` compares by identity.
    by_identity = getattr(type(value), "__eq__", None) is object.__eq__ and value is not None
    if cause.is_new_object or (by_identity and not isinstance(value, type)):
        return _cure_static_object(cause, value, by_identity)
    failure = retrace.try_as_data(key, name)
    if failure is None:
        is_no_data = value is None or isinstance(value, str | bytes | type)
        kind = "None" if value is None else f"a {type(value).__name__}"
        return replace(keep, tried=f"{kind} is no array") if is_no_data else keep
    if failure:
        tried = f"with {name} as data tracing fails ({failure}): it must stay static"
        return replace(keep, tried=tried, traced=True)
    is_argument = name in key.statics
    how = "take it out of static_argnames" if is_argument else "in an argument that is not static"
    if "_filter_jit" in getattr(getattr(key.inner(), "__code__", None), "co_qualname", ""):
        how = "as a jax.Array"
    return _traced(f"pass {name} as data: {how}", cause.values)


def _cure_static_object(cause: RecompileCause, value: Any, by_identity: bool) -> Cure:
    """Cure for a static value that is a new object at each call, which equals no earlier one."""
    name, tried = cause.name, cause.equal_programs()
    if by_identity and not hasattr(value, "__name__"):
        kind = type(value).__name__
        reason = f"{kind} has Python's own __eq__, by which each object differs from all others"
        return Cure(
            f"give {kind} an __eq__ and a __hash__ over what it holds (a frozen dataclass has "
            f"them), so that values of {name} that are alike share a program",
            f"{reason}; {tried}" if tried else reason,
        )
    text = f"make {name} once, and pass that object"
    if cause.is_new_object and cause.of_library:
        text = (
            f"a library calls {cause.last.function}, with another {name} each time: make one "
            "jitted function of your call into it, and call that"
        )
    return Cure(text, tried)


# ---- avals --------------------------------------------------------------------------------------


def _cure_type(cause: RecompileCause) -> Cure:
    """Cure for an argument whose aval changed: pad it, cast it, or pass one kind of number."""
    main, names = cause.last.main, listed_names(cause.names("type"))
    (new, shape), (old, before) = _split(main.new), _split(main.old)
    if new == old and len(shape) == len(before):
        return _cure_size(cause)
    kinds = [text.removeprefix("weak ") for text in (new, old)]
    if shape != before:
        types = f"{main.new} or {main.old}".replace("weak ", "")
        text = f"give {names} one type at every call, {types}, from the start"
    elif kinds[0] == kinds[1]:
        text = f"pass {names} always as an array of {kinds[0]}, or always as a Python number"
    else:
        kind = " or ".join(kinds)
        text = f"give {names} one type at every call, {kind}: from the start, or cast"
    return Cure(text, cause.differs_too() or _HIT)


def _split(text: str) -> tuple[str, list[str]]:
    """Splits "weak f32[3,4]" into dtype and dimensions."""
    dtype, _, rest = text.partition("[")
    return dtype, [size for size in rest.partition("]")[0].split(",") if size]


def _cure_size(cause: RecompileCause) -> Cure:
    """Cure for a dimension that changes: pad it to the largest size or to powers of two."""
    shapes = [_split(text)[1] for text in cause.values]
    axes = [i for i, sizes in enumerate(zip(*shapes, strict=False)) if len(set(sizes)) > 1]
    names = list(dict.fromkeys(change.name for change in cause.every("type")))
    is_one = len(names) == 1 and len({*map(len, shapes)}) == 1 and len(axes) == 1
    if not is_one or not all(shape[axes[0]].isdigit() for shape in shapes):
        return Cure(f"pad {listed_names(names)} to a few common shapes, and mask what was padded")
    by_value = [int(shape[axes[0]]) for shape in shapes]
    sizes = sorted(set(by_value))
    powers = {1 << max(size - 1, 0).bit_length() for size in sizes}  # the smallest not less
    padded = f"pad {cause.name} along axis {axes[0]} to"
    # Padding to the largest where it wastes less than half, or powers of two spare no program. With
    # two sizes the program of the larger is there already.
    if len(sizes) <= 2 or 2 * sizes[0] > sizes[-1] or len(powers) == len(sizes):
        largest = cause.values[by_value.index(sizes[-1])]
        tried = f"the program for {largest} is there: calls of that shape hit it"
        if len(cause.last.changes) > 1:
            tried = cause.differs_too() or _HIT
        return Cure(f"{padded} {sizes[-1]}, and mask what was padded", tried)
    gain = f"{len(powers)} programs instead of {len(sizes)}"
    return Cure(f"{padded} powers of two, and mask what was padded: {gain}")


# ---- one value at every call --------------------------------------------------------------------


_SAME: Mapping[str, str] = {
    "place": "put {names} in one place with jax.device_put before the first call",
    "structure": "build {names} of the same containers each time",
    "calling": "pass {names} always by position, or always by keyword",
    "setting": "set {names} once, before the first call",
    "mesh": "set {names} once, round all of the calls",
    "option": "jit the function once, and call that object everywhere",
    "donated": "jit the function once, and call that object everywhere",
    "field": "give {names} one value at every call, or make it an array of the pytree",
    "new": "pass {names} at every call, or at none",
    "gone": "pass {names} at every call, or at none",
}
_TOGETHER = (("option", "donated"), ("new", "gone"))  # kinds that one edit of the user's changes
_GROWS = "; where their number grows, one array with room for all, and a mask"


def _cure_varying_part(cause: RecompileCause) -> Cure:
    """Cure for a part of the key that should be the same at every call; see `_SAME`."""
    kind = cause.last.main.kind
    kinds = next((kinds for kinds in _TOGETHER if kind in kinds), (kind,))
    names, text = cause.names(*kinds), _SAME[kind]
    roots = listed_names([*map(root, names)])
    tried = cause.differs_too(*kinds) or _HIT
    if kind == "field":
        roots, tried = listed_names([*map(field_name, names)]), cause.equal_programs() or tried
        if cause.is_new_object:
            roots = listed_names([*recreated_objects(cause.last.changes).values()])
            text = "make {names} once, and use the same object each time"
    elif kind in ("new", "gone") and not set(names) <= set(map(root, names)):
        text = "give {names} the same arrays at every call, from the first on" + _GROWS
    elif kind == "setting" and not cause.name.isidentifier():
        text = "import all modules before the first call"
    elif kind == "place" and len(names) > 1:
        roots = container(names) or roots
    return Cure(text.format(names=roots), tried)


_CURES: Mapping[str, Callable[[RecompileCause], Cure]] = {
    **dict.fromkeys(_SAME, _cure_varying_part),
    "function": _cure_new_function,
    "static": _cure_static_value,
    "type": _cure_type,
}
