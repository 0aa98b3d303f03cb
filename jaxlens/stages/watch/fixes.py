"""What would have spared a recompile, and whether it would: each proposal is tried where it can be.

Three kinds of trial, none of which compiles or runs anything:

- The key is looked up once more with the cure applied: where the nearest earlier key differs in
  nothing else, the call would have been a hit (settings, containers, devices, options, types).
- The call is traced with the cure applied (`retrace.py`): static or closed-over numbers as data,
  padded shapes.
- Programs that were made are compared: function objects made anew, static objects that equal no
  other, bodies of loops.

What stays untried is said to be: a cure whose function is gone; one that leaves other differences,
which are named; fewer values of a static that is no number; and whether a line of operations runs
within jit, since that would run the user's program.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jaxlens.ir.compile_log import CallEvent, CompileLog, Cure, KeyChange, container, remade, root
from jaxlens.stages.arguments import value_diff
from jaxlens.stages.arguments.inputs import signature_of
from jaxlens.stages.keys.jax_key import JaxKey
from jaxlens.stages.watch import retrace, type_fixes
from jaxlens.stages.watch.argument_origin import made_at
from jaxlens.stages.watch.type_fixes import few, split, values

_ALONE = "the nearest earlier key differs in nothing else, so that call would have been a hit"
_HALVES = {"f64": "f32", "i64": "i32", "u64": "u32", "c128": "c64"}


def cured(log: CompileLog, keys: Mapping[int, JaxKey]) -> CompileLog:
    """The log with a cure at the last recompile of each cause.

    Args:
        log: What was watched.
        keys: The keys of its calls, by number.
    """
    groups: dict[Any, list[CallEvent]] = {}
    for call in log.recompiles:
        if not call.main.name.startswith("input "):  # of a backward pass, which follows
            cause = (call.function, call.defined, call.under, call.cause)
            groups.setdefault(cause, []).append(call)
    found: dict[int, Cure] = {}
    for calls in groups.values():
        propose = _PROPOSALS.get(calls[-1].main.kind)
        if propose is not None:
            found[calls[-1].number] = propose(calls, log, keys.get(calls[-1].number))
    every = (
        replace(call, cure=found.get(call.number)) if call.role == "user" else call
        for call in log.calls
    )
    return replace(log, calls=tuple(every))


# ---- what is known without a trace ---------------------------------------------------------------


def _alone(call: CallEvent, follows: Callable[[KeyChange], bool] | None = None) -> str:
    """What the keys say of the call without its main difference and those that go with it."""
    main = call.main
    goes = follows or (lambda change: change.kind == main.kind)
    rest = [change.name for change in call.changes if change is not main and not goes(change)]
    if not rest:
        return _ALONE
    return f"the nearest earlier key differs in {few(list(dict.fromkeys(rest)))} too"


def _compared(calls: Sequence[CallEvent], log: CompileLog) -> tuple[int, int]:
    """How many programs of a function there are for arguments of these types, and how many differ.

    (0, 0) where they cannot be compared.
    """
    last = calls[-1]
    same = [c for c in log.compiles if (c.function, c.defined) == (last.function, last.defined)]
    programs = [c.program for c in same if c.program and _types(c) == _types(last)]
    return (len(programs), len(set(programs))) if len(programs) > 1 else (0, 0)


def _types(call: CallEvent) -> tuple[str, ...]:
    return tuple(part.text for part in call.parts if part.kind == "input")


def _equal(calls: Sequence[CallEvent], log: CompileLog) -> str:
    """That all programs are equal, where they are."""
    made, different = _compared(calls, log)
    return f"their programs were compared: {_all(made)} are equal" if different == 1 else ""


def _all(count: int) -> str:
    return "both" if count == 2 else f"all {count}"


# ---- functions ----------------------------------------------------------------------------------


def _hoist(calls: Sequence[CallEvent], log: CompileLog, key: JaxKey | None) -> Cure:
    """Makes the function once."""
    last = calls[-1]
    at = f" at {last.line.file}:{last.line.line}" if last.line else ""
    text = f"make the jitted function once, before the loop{at}"
    if equal := _equal(calls, log):
        return Cure(f"{text}, and call that object", equal)
    names = list(
        dict.fromkeys(c.name for call in calls for c in call.changes if c.kind == "closed")
    )
    plain = [name for name in names if name.isidentifier()]
    if plain and key is not None:
        return _parameters(text, plain, calls, key)
    made, different = _compared(calls, log)
    if not made:
        return Cure(f"{text}, and call that object")
    tried = f"of {made} programs {different} differ: each object closes over other values"
    if names:
        roots = few(list(dict.fromkeys(re.split(r"[\[.]", name)[0] for name in names)))
        return Cure(f"keep one jitted function for each {roots}, or pass what differs in it", tried)
    return Cure(f"{text}, and call that object, with what it closes over as arguments", tried)


def _parameters(text: str, names: Sequence[str], calls: Sequence[CallEvent], key: JaxKey) -> Cure:
    """Makes what the function closes over arguments of it."""
    told = few(names)
    failed = retrace.closed_as_data(key, names)
    if failed is None:
        return Cure(f"{text}, with {told} as an argument")
    if failed:
        return Cure(
            f"make the jitted function once for each value of {told}, and keep them",
            f"with {told} as data tracing fails ({failed}): it is part of the program",
            traced=True,
        )
    each = {tuple(c.new for c in call.changes if c.kind == "closed") for call in calls}
    served = _all(len(each) + 1)
    return Cure(
        f"{text}, with {told} as an argument",
        f"traced so: it works, and one program serves {served} values",
        traced=True,
    )


# ---- static values ------------------------------------------------------------------------------


def _unfix(calls: Sequence[CallEvent], log: CompileLog, key: JaxKey | None) -> Cure:
    """Makes a static argument data."""
    last = calls[-1]
    name = last.main.name
    if len(last.changes) == 1 and _same(*values(calls[-1:])):
        return Cure(f"pass {name} at every call, or at none", "both mean the same, but not to JAX")
    keep = Cure(f"{name} is part of the program: give it fewer different values, each is a compile")
    value = _static(key, name)
    if key is None:
        return keep
    if last.main.new.startswith("another ") and (place := _made_at(last, key)):
        return Cure(f"make {name} once, and pass that object{place}", _equal(calls, log))
    if _equals_none(value) or (value is None and last.main.new.startswith("another ")):
        return _by_identity(calls, log, value)
    failed = retrace.as_data(key, name)
    if failed is None:
        return replace(keep, tried=_no_data(name, value))
    if failed:
        tried = f"with {name} as data tracing fails ({failed}): it must stay static"
        return replace(keep, tried=tried, traced=True)
    whole = name in key.statics
    how = "take it out of static_argnames" if whole else "in an argument that is not static"
    if "_filter_jit" in getattr(getattr(key.inner(), "__code__", None), "co_qualname", ""):
        how = "as a jax.Array"
    served = _all(len(values(calls)))
    return Cure(
        f"pass {name} as data: {how}",
        f"traced so: it works, and one program serves {served} values",
        traced=True,
    )


def _static(key: JaxKey | None, name: str) -> Any:
    """A static value, or the part of one that a path names."""
    statics = key.statics if key is not None else {}
    root = max((root for root in statics if name.startswith(root)), key=len, default=None)
    if root is None:
        return None
    try:
        return retrace.part(statics[root], value_diff.steps(name[len(root) :]))
    except (AttributeError, KeyError, IndexError, TypeError, ValueError):
        return None


def _equals_none(value: Any) -> bool:
    """Whether it equals no other object of its type."""
    return getattr(type(value), "__eq__", None) is object.__eq__ and not isinstance(value, type)


def _no_data(name: str, value: Any) -> str:
    """Why a static value cannot become data, where that is plain from its type."""
    if value is None or isinstance(value, str | bytes | type):
        return f"{'None' if value is None else f'a {type(value).__name__}'} is no array"
    return ""


def _made_at(call: CallEvent, key: JaxKey | None) -> str:
    """The line that made an object which is another at each call, in brackets."""
    function = key.function() if key is not None else None
    signature = signature_of(function) if function is not None else None
    if call.line is None or signature is None:
        return ""
    line = made_at(call.line, call.function, list(signature.parameters), root(call.main.name))
    return f" ({line})" if line else ""


def _by_identity(calls: Sequence[CallEvent], log: CompileLog, value: Any) -> Cure:
    """A static object that equals no other: each is a program, whatever it holds."""
    name, equal = calls[-1].main.name, _equal(calls, log)
    if value is None:
        text = (
            f"pass an object as {name} that equals the earlier one: the same function object, or "
            "one of a class with __eq__ and __hash__"
        )
        return Cure(text, equal)
    if callable(value) and hasattr(value, "__name__"):
        text = f"pass the same function object as {name} each time: functions equal no other"
        return Cure(text, equal)
    kind = type(value).__name__
    own = f"{kind} has Python's own __eq__, by which each object differs from all others"
    return Cure(
        f"give {kind} an __eq__ and a __hash__ over what it holds (a frozen dataclass has them), "
        f"so that values of {name} that are alike share a program",
        f"{own}; {equal}" if equal else own,
    )


def _same(was: str, now: str) -> bool:
    """Whether one of two static values is the other's default."""
    return was == f"not given (so {now})" or now == f"not given (so {was})"


# ---- arguments ----------------------------------------------------------------------------------


def _type(calls: Sequence[CallEvent], log: CompileLog, key: JaxKey | None) -> Cure:
    return type_fixes.cure(calls, key, _alone(calls[-1]))


def _place(calls: Sequence[CallEvent], log: CompileLog, key: JaxKey | None) -> Cure:
    last = calls[-1]
    moved = list(dict.fromkeys(c.name for c in last.changes if c.kind == "place"))
    names = container(moved) if len(moved) > 1 else ""
    names = names or few(list(dict.fromkeys(map(root, moved))))
    return Cure(f"put {names} in one place with jax.device_put before the first call", _alone(last))


def _structure(calls: Sequence[CallEvent], log: CompileLog, key: JaxKey | None) -> Cure:
    name = calls[-1].main.name
    return Cure(f"build {name} of the same containers each time", _alone(calls[-1]))


def _field(calls: Sequence[CallEvent], log: CompileLog, key: JaxKey | None) -> Cure:
    """What a pytree keeps beside its arrays."""
    last = calls[-1]
    tried = _equal(calls, log) or _alone(last)
    if last.main.new.startswith("another "):
        objects = few(list(dict.fromkeys(remade(last.changes).values())))
        place = _made_at(last, key)
        return Cure(f"make {objects} once, and use the same object each time{place}", tried)
    names = few([c.name for c in last.changes if c.kind == "field"])
    return Cure(f"give {names} one value at every call, or make it an array of the pytree", tried)


def _leaves(calls: Sequence[CallEvent], log: CompileLog, key: JaxKey | None) -> Cure:
    last = calls[-1]
    if len({call.main.name for call in calls}) > 1:
        return Cure(
            f"give {last.cause[1]} one number of arrays: one array with room for all, and a mask"
        )
    names = [c.name for c in last.changes if c.kind in ("new", "gone")]
    tried = _alone(last, lambda change: change.kind in ("new", "gone"))
    arguments = list(dict.fromkeys(map(root, names)))
    if set(names) <= set(arguments):
        return Cure(f"pass {few(names)} at every call, or at none", tried)
    inside = container(names) if len(names) > 1 else names[0]
    what = f"{inside} in it" if inside not in ("", *arguments) else "all of them"
    return Cure(
        f"give {few(arguments)} the same arrays at every call: {what} from the first on, or never",
        tried,
    )


def _calling(calls: Sequence[CallEvent], log: CompileLog, key: JaxKey | None) -> Cure:
    last = calls[-1]
    names = few([c.name for c in last.changes if c.kind == "calling"])
    return Cure(f"pass {names} always by position, or always by keyword", _alone(last))


# ---- settings and options -----------------------------------------------------------------------


def _setting(calls: Sequence[CallEvent], log: CompileLog, key: JaxKey | None) -> Cure:
    last = calls[-1]
    name = last.main.name
    if not name.isidentifier():
        return Cure("import all modules before the first call", _alone(last))
    wide = name == "jax_enable_x64"
    tried = _alone(last, lambda change: wide and _follows(change, last))
    return Cure(f"set {name} once, before the first call", tried)


def _follows(change: KeyChange, call: CallEvent) -> bool:
    """Whether a type is another only since 64 bits are on or off: no array has it of its own."""
    new, old = split(change.new), split(change.old)
    if change.kind != "type" or new is None or old is None or new[1] != old[1]:
        return False
    holders = {part.name: part.holder for part in call.parts}
    narrow = [_narrow(dtype) for dtype, _ in (new, old)]
    return narrow[0] == narrow[1] and holders.get(change.name) != "jax.Array"


def _narrow(dtype: str) -> str:
    weak, _, kind = dtype.rpartition(" ")
    return f"{weak} {_HALVES.get(kind, kind)}"


def _options(calls: Sequence[CallEvent], log: CompileLog, key: JaxKey | None) -> Cure:
    tried = _alone(calls[-1], lambda change: change.kind in ("donated", "option"))
    return Cure("jit the function once, and call that object everywhere", tried)


def _mesh(calls: Sequence[CallEvent], log: CompileLog, key: JaxKey | None) -> Cure:
    return Cure("set the mesh once, round all of the calls", _alone(calls[-1]))


def _lost(calls: Sequence[CallEvent], log: CompileLog, key: JaxKey | None) -> Cure:
    """A key that JAX had; where no trace failed, the caches were cleared or were full."""
    name = calls[-1].function
    if any(step.failed for call in log.calls if call.function == name for step in call.steps):
        return Cure("")
    return Cure(
        "leave out jax.clear_caches() between the calls, where it is called",
        "the key equals an earlier one, which would have been a hit",
    )


_Propose = Callable[[Sequence[CallEvent], CompileLog, JaxKey | None], Cure]
_PROPOSALS: Mapping[str, _Propose] = {
    "function": _hoist,
    "static": _unfix,
    "type": _type,
    "place": _place,
    "field": _field,
    "structure": _structure,
    "new": _leaves,
    "gone": _leaves,
    "calling": _calling,
    "lost": _lost,
    "setting": _setting,
    "donated": _options,
    "option": _options,
    "mesh": _mesh,
}
