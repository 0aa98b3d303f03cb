"""Cures for arguments whose type changed: pad, cast, or keep one kind of number."""

from collections.abc import Mapping, Sequence

from jaxlens.ir.compile_log import CallEvent, Cure, KeyChange
from jaxlens.stages.keys.jax_key import JaxKey
from jaxlens.stages.watch import retrace

_NAMED = 3  # arguments named in one cure
_FEW = 2  # sizes for which padding to the largest is proposed whatever they are


def cure(calls: Sequence[CallEvent], key: JaxKey | None, alone: str) -> Cure:
    """Proposes what spares the compiles of arguments of other types.

    Args:
        calls: Recompiles of one cause.
        key: The key of the last of them.
        alone: What is known of a call in which types of this kind did not change.
    """
    main = calls[-1].main
    new, old = split(main.new), split(main.old)
    if "key<" in main.new + main.old:
        return Cure(
            f"make {main.name} the same way each time, jax.random.key or jax.random.PRNGKey", alone
        )
    if new is None or old is None:
        return Cure(f"pass {main.name} as an array at every call, or never", alone)
    if new[:1] == old[:1] and len(new[1]) == len(old[1]) and new[1] != old[1]:
        return _pad(calls, key)
    names = few([c.name for c in calls[-1].changes if c.kind == "type"])
    if new[1] == old[1] and new[0].removeprefix("weak ") == old[0].removeprefix("weak "):
        kind = old[0].removeprefix("weak ")
        return Cure(
            f"pass {names} always as an array of {kind}, or always as a Python number", alone
        )
    if new[1] == old[1]:
        kinds = f"{new[0]} or {old[0]}".replace("weak ", "")
        return Cure(f"give {names} one type at every call, {kinds}: from the start, or cast", alone)
    return Cure(f"give {names} one rank: reshape it before the call", alone)


def split(text: str) -> tuple[str, list[str]] | None:
    """Dtype and dimensions of "weak f32[3,4]"; None for what is no type."""
    dtype, bracket, rest = text.partition("[")
    return (dtype, rest.partition("]")[0].split(",")) if bracket else None


def few(names: Sequence[str]) -> str:
    """`a, b and c`, or the first of many."""
    if len(names) > _NAMED:
        return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
    return " and ".join((", ".join(names[:-1]), names[-1]) if names[1:] else names)


def values(calls: Sequence[CallEvent]) -> list[str]:
    """What the main change took, the value before the first included."""
    main = [call.main for call in calls]
    return list(dict.fromkeys([main[0].old, *(change.new for change in main)]))


def _pad(calls: Sequence[CallEvent], key: JaxKey | None) -> Cure:
    """Pads the axes that differ."""
    name = calls[-1].main.name
    shapes = [s[1] for text in values(calls) if (s := split(text))]
    axes = [i for i, sizes in enumerate(zip(*shapes, strict=False)) if len(set(sizes)) > 1]
    if len(axes) != 1 or not all(s[axes[0]].isdigit() for s in shapes):
        return _padded_cure(calls, key, f"pad {name} to a few common shapes")
    sizes = sorted({int(s[axes[0]]) for s in shapes})
    axis = f"axis {axes[0]}"
    buckets = sorted({_power(size) for size in sizes})
    if len(sizes) <= _FEW or 2 * sizes[0] > sizes[-1] or len(buckets) == len(sizes):
        largest = max(values(calls), key=lambda text: int((split(text) or ("", []))[1][axes[0]]))
        return Cure(
            f"pad {name} along {axis} to {sizes[-1]}, and mask what was padded",
            f"the program for {largest} is there: calls of that shape hit it",
        )
    fewer = f"{len(buckets)} programs instead of {len(sizes)}"
    return _padded_cure(calls, key, f"pad {name} along {axis} to powers of two", f": {fewer}")


def _padded_cure(calls: Sequence[CallEvent], key: JaxKey | None, text: str, gain: str = "") -> Cure:
    """The cure, with what a trace at padded shapes showed."""
    text = f"{text}, and mask what was padded{gain}"
    if key is None:
        return Cure(text)
    changes = [c for c in calls[-1].changes if c.kind == "type"]
    failed = retrace.at_sizes(key, _padded(key, changes))
    if failed is None:
        return Cure(text)
    if failed:
        return Cure(text, f"but tracing at the padded shape fails: {failed}", traced=True)
    return Cure(text, "traced at a padded shape: it works", traced=True)


def _power(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()


def _padded(key: JaxKey, changes: Sequence[KeyChange]) -> Mapping[int, tuple[int, ...]]:
    """Shapes of the leaves that are padded, by position."""
    found = {}
    names = list(key.inputs)
    for change in changes:
        new, old = split(change.new), split(change.old)
        if new and old and change.name in names and len(new[1]) == len(old[1]):
            sizes = [
                _power(int(n)) if n != o else int(n)
                for n, o in zip(new[1], old[1], strict=True)
                if n.isdigit()
            ]
            if len(sizes) == len(new[1]):
                found[names.index(change.name)] = tuple(sizes)
    return found
