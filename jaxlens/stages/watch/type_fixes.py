"""Cures for arguments whose aval changed: pad, cast, or pass one kind of number."""

from collections.abc import Mapping

from jaxlens.ir.compile_log import Cure
from jaxlens.stages.keys.jax_key import JaxKey
from jaxlens.stages.watch import retrace
from jaxlens.stages.watch.recompile_cause import RecompileCause, few

_FEW = 2  # up to so many sizes, padding to the largest is always proposed


def type_cure(cause: RecompileCause) -> Cure:
    """Returns the cure for an argument whose aval changed."""
    main, name, alone = cause.last.main, cause.name, cause.alone()
    new, old = split(main.new), split(main.old)
    if "key<" in main.new + main.old:
        return Cure(
            f"make {name} the same way each time, jax.random.key or jax.random.PRNGKey", alone
        )
    if new is None or old is None:
        return Cure(f"pass {name} as an array at every call, or never", alone)
    if new[:1] == old[:1] and len(new[1]) == len(old[1]) and new[1] != old[1]:
        return _pad(cause)
    names = few(cause.names("type"))
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
    """Splits "weak f32[3,4]" into dtype and dimensions; None for text of another form."""
    dtype, bracket, rest = text.partition("[")
    return (dtype, rest.partition("]")[0].split(",")) if bracket else None


def _pad(cause: RecompileCause) -> Cure:
    """Cure for a dimension that changes: pad it to the largest size or to powers of two."""
    types = [(parts[1], text) for text in cause.values if (parts := split(text))]
    shapes = [shape for shape, _ in types]
    axes = [i for i, sizes in enumerate(zip(*shapes, strict=False)) if len(set(sizes)) > 1]
    if len(axes) != 1 or not all(shape[axes[0]].isdigit() for shape in shapes):
        return _padded(cause, f"pad {cause.name} to a few common shapes")
    by_size = {int(shape[axes[0]]): text for shape, text in reversed(types)}
    sizes, axis = sorted(by_size), f"axis {axes[0]}"
    powers = {_power(size) for size in sizes}
    if len(sizes) <= _FEW or 2 * sizes[0] > sizes[-1] or len(powers) == len(sizes):
        return Cure(
            f"pad {cause.name} along {axis} to {sizes[-1]}, and mask what was padded",
            f"the program for {by_size[sizes[-1]]} is there: calls of that shape hit it",
        )
    gain = f": {len(powers)} programs instead of {len(sizes)}"
    return _padded(cause, f"pad {cause.name} along {axis} to powers of two", gain)


def _padded(cause: RecompileCause, text: str, gain: str = "") -> Cure:
    """Returns a padding cure, with the outcome of a trace at padded shapes."""
    text = f"{text}, and mask what was padded{gain}"
    failure = retrace.at_sizes(cause.key, _padded_shapes(cause, cause.key)) if cause.key else None
    if failure is None:
        return Cure(text)
    if failure:
        return Cure(text, f"but tracing at the padded shape fails: {failure}", traced=True)
    return Cure(text, "traced at a padded shape: it works", traced=True)


def _power(size: int) -> int:
    """Returns the smallest power of two that is not less than a size."""
    return 1 << max(size - 1, 0).bit_length()


def _padded_shapes(cause: RecompileCause, key: JaxKey) -> Mapping[int, tuple[int, ...]]:
    """Returns the padded shapes of the arrays whose dimensions changed, by position."""
    shapes = {}
    names = list(key.inputs)
    for change in cause.last.changes:
        new, old = split(change.new), split(change.old)
        if change.kind != "type" or not new or not old or change.name not in names:
            continue
        if len(new[1]) == len(old[1]) and all(size.isdigit() for size in new[1]):
            shapes[names.index(change.name)] = tuple(
                _power(int(size)) if size != before else int(size)
                for size, before in zip(new[1], old[1], strict=True)
            )
    return shapes
