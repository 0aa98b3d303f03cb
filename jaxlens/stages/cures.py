"""What would have spared a recompile, and whether it would: each proposal is tried where it can be.

A trial traces the function on abstract shapes, apart from JAX's caches, with what it prints kept
back; nothing is compiled or run. Where the log or JAX's keys show the answer, nothing is traced.
"""

import contextlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax

from jaxlens.ir.compile_log import Call, Change, Cure, Log
from jaxlens.stages import compat, compat_calls, isolate
from jaxlens.stages.call_keys import Met

_ALONE = "the nearest earlier key differs in nothing else, so that call would have been a hit"
_NUMBERS = (bool, int, float, complex)
_FEW = 2  # sizes for which padding to the largest is proposed whatever they are


def cured(log: Log, keys: Mapping[int, Met]) -> Log:
    """The log with a cure at the last recompile of each cause.

    Args:
        log: What was watched.
        keys: The keys of its calls, by number.
    """
    groups: dict[Any, list[Call]] = {}
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


# ---- proposals ----------------------------------------------------------------------------------


def _hoist(calls: Sequence[Call], log: Log, key: Met | None) -> Cure:
    """Makes the function once."""
    last = calls[-1]
    at = f" at {last.line.file}:{last.line.line}" if last.line else ""
    text = f"make the jitted function once, before the loop{at}, and call that object"
    same = [c for c in log.compiles if (c.function, c.defined) == (last.function, last.defined)]
    programs = {c.program for c in same if c.program and _types(c) == _types(last)}
    if not programs or not last.program:
        return Cure(text)
    if len(programs) == 1:
        return Cure(text, f"their programs were compared: {_all(same)} are equal")
    tried = f"of {len(same)} programs {len(programs)} differ: each object closes over other values"
    return Cure(f"{text}, with what it closes over as arguments", tried)


def _types(call: Call) -> tuple[str, ...]:
    return tuple(part.text for part in call.parts if part.kind in ("input", "static"))


def _unfix(calls: Sequence[Call], log: Log, key: Met | None) -> Cure:
    """Makes a static argument data."""
    name = calls[-1].main.name
    values = _values(calls)
    if len(calls[-1].changes) == 1 and _same(*_values(calls[-1:])):
        return Cure(f"pass {name} at every call, or at none", "both mean the same, but not to JAX")
    keep = Cure(f"{name} is part of the program: give it fewer different values, each is a compile")
    value = key.key.statics.get(name) if key is not None else None
    if value is not None and getattr(type(value), "__eq__", None) is object.__eq__:
        return _by_identity(name, value)
    if value is None and calls[-1].main.new.startswith("another "):
        return Cure(
            f"pass an object as {name} that equals the earlier one: the same function object, or "
            "one of a class with __eq__ and __hash__"
        )
    if key is None or not isinstance(value, _NUMBERS):
        return keep
    failed = _tried(key, dynamic=name)
    if failed is None:
        return Cure(f"pass {name} as data: take it out of static_argnames")
    if not failed:
        return Cure(
            f"pass {name} as data: take it out of static_argnames",
            f"traced so: it works, and one program serves {_all(values)} values",
        )
    return replace(keep, tried=f"with {name} as data tracing fails ({failed}): it must stay static")


def _all(things: Sequence[Any]) -> str:
    return "both" if len(things) == 2 else f"all {len(things)}"


def _by_identity(name: str, value: Any) -> Cure:
    """A static object that equals no other: each is a program, whatever it holds."""
    kind = type(value).__name__
    if callable(value) and hasattr(value, "__name__"):
        return Cure(f"pass the same function object as {name} each time: functions equal no other")
    return Cure(
        f"give {kind} an __eq__ and a __hash__ over what it holds (a frozen dataclass has them), "
        f"so that values of {name} that are alike share a program",
        f"{kind} has Python's own __eq__, by which each object differs from all others",
    )


def _same(was: str, now: str) -> bool:
    """Whether one of two static values is the other's default."""
    return was == f"not given (so {now})" or now == f"not given (so {was})"


def _values(calls: Sequence[Call]) -> list[str]:
    """What the main change took, the value before the first included."""
    main = [call.main for call in calls]
    return list(dict.fromkeys([main[0].old, *(change.new for change in main)]))


def _type(calls: Sequence[Call], log: Log, key: Met | None) -> Cure:
    """Pads, casts, or keeps one kind of number."""
    last = calls[-1]
    main = last.main
    new, old = _split(main.new), _split(main.old)
    if new is None or old is None:
        return Cure("")
    if new[:1] == old[:1] and len(new[1]) == len(old[1]) and new[1] != old[1]:
        return _pad(calls, key)
    alone = _ALONE if len(last.changes) == 1 else ""
    if new[1] == old[1] and new[0].removeprefix("weak ") == old[0].removeprefix("weak "):
        kind = old[0].removeprefix("weak ")
        return Cure(
            f"pass {main.name} always as an array of {kind}, or always as a Python number", alone
        )
    if new[1] == old[1]:
        kinds = f"{new[0]} or {old[0]}".replace("weak ", "")
        return Cure(
            f"give {main.name} one type at every call, {kinds}: from the start, or cast", alone
        )
    return Cure(f"give {main.name} one rank: reshape it before the call", alone)


def _split(text: str) -> tuple[str, list[str]] | None:
    """Dtype and dimensions of "weak f32[3,4]"."""
    dtype, bracket, rest = text.partition("[")
    return (dtype, rest.partition("]")[0].split(",")) if bracket else None


def _pad(calls: Sequence[Call], key: Met | None) -> Cure:
    """Pads the axes that differ."""
    name = calls[-1].main.name
    shapes = [s[1] for text in _values(calls) if (s := _split(text))]
    axes = [i for i, sizes in enumerate(zip(*shapes, strict=False)) if len(set(sizes)) > 1]
    if len(axes) != 1 or not all(s[axes[0]].isdigit() for s in shapes):
        return Cure(f"pad {name} to a few common shapes, and mask what was padded")
    sizes = sorted({int(s[axes[0]]) for s in shapes})
    axis = f"axis {axes[0]}"
    if len(sizes) <= _FEW or 2 * sizes[0] > sizes[-1]:
        largest = max(_values(calls), key=lambda text: int((_split(text) or ("", []))[1][axes[0]]))
        return Cure(
            f"pad {name} along {axis} to {sizes[-1]}, and mask what was padded",
            f"the program for {largest} is there: calls of that shape hit it",
        )
    buckets = sorted({_power(size) for size in sizes})
    text = (
        f"pad {name} along {axis} to powers of two, and mask what was padded: "
        f"{len(buckets)} programs instead of {len(sizes)}"
    )
    if key is None:
        return Cure(text)
    changes = [c for c in calls[-1].changes if c.kind == "type"]
    failed = _tried(key, sizes=_padded(key, changes))
    if failed is None:
        return Cure(text)
    if failed:
        return Cure(text, f"but tracing at the padded shape fails: {failed}")
    return Cure(text, "traced at a padded shape: it works")


def _power(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()


def _padded(key: Met, changes: Sequence[Change]) -> dict[int, tuple[int, ...]]:
    """Shapes of the leaves that are padded, by position."""
    found = {}
    names = list(key.key.inputs)
    for change in changes:
        new, old = _split(change.new), _split(change.old)
        if new and old and change.name in names and len(new[1]) == len(old[1]):
            sizes = [
                _power(int(n)) if n != o else int(n)
                for n, o in zip(new[1], old[1], strict=True)
                if n.isdigit()
            ]
            if len(sizes) == len(new[1]):
                found[names.index(change.name)] = tuple(sizes)
    return found


def _place(calls: Sequence[Call], log: Log, key: Met | None) -> Cure:
    last = calls[-1]
    alone = _ALONE if len(last.changes) == 1 else ""
    names = " and ".join(dict.fromkeys(c.name for c in last.changes if c.kind == "place"))
    return Cure(f"put {names} in one place with jax.device_put before the first call", alone)


def _structure(calls: Sequence[Call], log: Log, key: Met | None) -> Cure:
    last = calls[-1]
    alone = _ALONE if len(last.changes) == 1 else ""
    return Cure(f"build {last.main.name} of the same containers each time", alone)


def _setting(calls: Sequence[Call], log: Log, key: Met | None) -> Cure:
    name = calls[-1].main.name
    if not name.isidentifier():
        return Cure("import all modules before the first call")
    return Cure(f"set {name} once, before the first call")


def _options(calls: Sequence[Call], log: Log, key: Met | None) -> Cure:
    return Cure("jit the function once, and call that object everywhere")


_Propose = Callable[[Sequence[Call], Log, Met | None], Cure]
_PROPOSALS: Mapping[str, _Propose] = {
    "function": _hoist, "static": _unfix, "type": _type, "place": _place,
    "structure": _structure, "setting": _setting, "donated": _options, "option": _options,
}  # fmt: skip


# ---- trials -------------------------------------------------------------------------------------


def _tried(
    key: Met, dynamic: str = "", sizes: Mapping[int, tuple[int, ...]] | None = None
) -> str | None:
    """Traces a call once more with something changed.

    Args:
        key: The call.
        dynamic: A static argument that becomes data.
        sizes: Other shapes, by the leaf's position.

    Returns:
        "" where it works, the exception's name where it fails, None where it cannot be tried: the
        function is gone, or JAX's settings are others now.
    """
    fun = key.fun()
    context, (info, signature, avals, _) = key.exact
    if fun is None or context != compat_calls.here():
        return None
    try:
        args, kwargs = _arguments(info, signature, avals, sizes or {})
        traceable = compat.rejit(_other(fun), _without(info, dynamic))
    except (AttributeError, TypeError, ValueError):
        return None
    value = isolate.context()
    out, err = io.StringIO(), io.StringIO()
    with (
        isolate.untouched(value, function=fun),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            traceable.trace(*args, **kwargs)
        except Exception as why:
            return type(why).__name__
        finally:
            isolate.retire()
    return ""


def _other(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A new function object: no trace of the user's is reused, and none is made for them."""

    def traced(*args: Any, **kwargs: Any) -> Any:
        return fun(*args, **kwargs)

    return traced


def _without(info: Any, dynamic: str) -> Any:
    """Jit's settings with one static argument less, and nothing donated or laid out."""
    info = info._replace(donate_argnums=(), donate_argnames=())
    if not dynamic:
        return info
    names = list(getattr(info.fun_signature, "parameters", ()))
    position = names.index(dynamic) if dynamic in names else -1
    return info._replace(
        static_argnums=tuple(i for i in info.static_argnums if i != position),
        static_argnames=tuple(name for name in info.static_argnames if name != dynamic),
    )


def _arguments(
    info: Any, signature: Any, avals: Sequence[Any], sizes: Mapping[int, tuple[int, ...]]
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of a call, arrays as abstract shapes."""
    parts, statics = compat.signature_tree(signature), compat.static_values(signature)
    if parts is None or statics is None:
        raise ValueError("this version of JAX does not show the arguments of a key")
    *trees, names = parts
    shape: Any = jax.ShapeDtypeStruct  # it has no types
    leaves = iter(
        shape(sizes.get(i, aval.shape), aval.dtype, weak_type=aval.weak_type)
        for i, aval in enumerate(avals)
    )
    filled = [
        jax.tree_util.tree_unflatten(tree, [next(leaves) for _ in range(tree.num_leaves)])
        for tree in trees
    ]
    fixed, keywords = statics
    args = filled[: len(trees) - len(names)]
    positions = sorted(i for i in info.static_argnums if i >= 0)
    for position, value in zip(positions, fixed[: len(fixed) - len(keywords)], strict=False):
        args.insert(position, value)
    named = zip(names, filled[len(trees) - len(names) :], strict=True)
    later = zip(keywords, fixed[len(fixed) - len(keywords) :], strict=True)
    return args, {**dict(named), **dict(later)}
