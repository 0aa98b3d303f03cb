"""Computes the differences of two keys of JAX's caches, and their distance."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from jaxlens.call.arguments.inputs import static_text
from jaxlens.ir.compile_log import KeyChange, KeyChangeKind
from jaxlens.keys.jax_key import JaxKey, commitment_text, value_text
from jaxlens.keys.value_diff import AuxData, PyTreeDef, differences

Comparison = tuple[tuple[KeyChange, ...], int]
"""The differences to the nearest earlier key, and the number of earlier keys."""

EAGER = "{name} is not jitted, and has no cache of its own"
_IMPORTED = "as a module that was imported since has settings of its own (jax.extend, Pallas)"
_CALLED = {True: ("by keyword", "by position"), False: ("by position", "by keyword")}
_DONATED = {True: ("donated", "not donated"), False: ("not donated", "donated")}


def _by_option(new: JaxKey, old: JaxKey) -> Iterator[KeyChange]:
    """Yields the differences of two keys of the trace cache, those of jit's options by option."""
    yield from _changed("option", new.options, old.options)
    if len(new.exact[0]) == len(old.exact[0]):
        yield from _changed("setting", new.settings, old.settings)
    else:
        yield imported(new.exact[0], old.exact[0])
    yield from _changed("static", new.statics, old.statics, new.defaults)
    for name in new.inputs:
        if name not in old.inputs:
            yield KeyChange("new", name, new.inputs[name])
    for name, was in old.inputs.items():
        if name not in new.inputs:
            yield KeyChange("gone", name, "", was)
        elif new.inputs[name] != was:
            yield KeyChange("type", name, new.inputs[name], was)
    if new.inputs.keys() == old.inputs.keys():
        # Without the arguments that are static in one of the keys.
        static = {*new.statics, *old.statics} - (new.structures.keys() & old.structures.keys())
        trees = [{n: t for n, t in k.structures.items() if n not in static} for k in (new, old)]
        yield from _changed("structure", *trees)
    for name in sorted(new.keywords ^ old.keywords):
        if all(name in (*key.structures, *key.statics) for key in (new, old)):
            yield KeyChange("calling", name, *_CALLED[name in new.keywords])
    if new.mesh != old.mesh:
        yield KeyChange("mesh", "mesh", _mesh_text(new.mesh), _mesh_text(old.mesh))


def changes(new: JaxKey, old: JaxKey) -> Iterator[KeyChange]:
    """Yields the differences of two keys of the trace cache.

    Names of arguments stand in place of jit's positions: donating the first argument changes
    `donate_argnums` and `donate_argnames`, which is one change of `x`.
    """
    differing = list(_by_option(new, old))
    options = {change.name for change in differing if change.kind == "option"}
    for change in differing:
        if change.kind != "option":
            yield change
        elif change.name == "donate_argnames":
            now, was = ({*(key.options.get(change.name) or ())} for key in (new, old))
            for name in sorted(now ^ was):
                yield donated(name, name in now)
        elif change.name.replace("argnums", "argnames") not in options - {change.name}:
            yield change


def donated(name: str, now: bool) -> KeyChange:
    """Returns the change of an argument whose donation differs."""
    return KeyChange("donated", name, *_DONATED[now])


def imported(new: Sequence[Any], old: Sequence[Any]) -> KeyChange:
    """Returns the change of a trace context to which a module has added settings."""
    return KeyChange(
        "setting", "JAX's settings", f"{len(new)} of them, {_IMPORTED}", f"{len(old)} of them"
    )


def nearest(
    differences: Iterable[Iterable[KeyChange]],
    distance: Callable[[Sequence[KeyChange]], float] = len,
) -> tuple[KeyChange, ...]:
    """Returns the differences to the nearest earlier key, of several the first."""
    return min(map(tuple, differences), key=distance, default=())


def moved(names: Sequence[str], new: Sequence[Any], old: Sequence[Any]) -> Iterator[KeyChange]:
    """Yields the inputs that lie elsewhere; constants that JAX passes come first."""
    constants = [f"constant {i}" for i in range(len(new) - len(names))]
    return differing("place", zip((*constants, *names), new, old, strict=False), commitment_text)


def differing(
    kind: KeyChangeKind,
    triples: Iterable[tuple[str, Any, Any]],
    text: Callable[[Any], str] = static_text,
) -> Iterator[KeyChange]:
    """Yields the changes among triples of name, new value and old value."""
    for name, now, was in triples:
        if now != was:
            yield KeyChange(kind, name, text(now), text(was))


def _changed(
    kind: KeyChangeKind,
    new: Mapping[str, Any],
    old: Mapping[str, Any],
    defaults: Mapping[str, Any] = {},
) -> Iterator[KeyChange]:
    for name in dict.fromkeys((*new, *old)):
        if name in old and name in new:
            is_other = kind == "static" and type(new[name]) is not type(old[name])  # 2.0 is not 2
            if is_other or _differ(new[name], old[name]):
                yield from _parts(kind, name, new[name], old[name])
        else:
            default = f" (so {static_text(defaults[name])})" if name in defaults else ""
            missing = f"not given{default}"
            texts = (value_text(k[name]) if name in k else missing for k in (new, old))
            yield _change(kind, name, *texts)


def _differ(new: Any, old: Any) -> bool:
    """Whether two values are not equal; a user's `__eq__` that raises finds no equal one."""
    try:
        return bool(new != old)
    except Exception:
        return True


def _parts(kind: KeyChangeKind, name: str, new: Any, old: Any) -> Iterator[KeyChange]:
    """Yields the parts in which two values of one name differ."""
    if kind not in ("static", "structure"):
        now, was = (value_text(value).partition(" on mesh ") for value in (new, old))
        of_meshes = now[0] == was[0] and now[2] != was[2]  # the specs of shardings are equal
        texts = ("".join(text[of_meshes:]).strip() for text in (now, was))
        yield _change(kind, name, *texts)
        return
    for path, now, was in differences(name, new, old):
        if isinstance(now, AuxData) and isinstance(was, AuxData):
            yield _change("field", path, static_text(now.value), static_text(was.value))
        else:
            yield _change(kind, path, _tree_text(now), _tree_text(was))


def _change(kind: KeyChangeKind, name: str, now: str, was: str) -> KeyChange:
    if now != was:
        return KeyChange(kind, name, now, was)
    # The text is that of objects without names, such as "Net(<object>)": only the class is of use.
    text = was.partition("(")[0] if "(" in was and "<" in was else was
    return KeyChange(kind, name, f"another {text}", text)


def _tree_text(value: Any) -> str:
    """Returns the text of a static value or pytree; of an OrderedDict the keys in order."""
    if isinstance(value, PyTreeDef):
        kind, keys = value.node_data() or (None, None)
        if kind is OrderedDict and keys:
            return f"OrderedDict of {', '.join(map(str, keys))}"
    return value_text(value)


def _mesh_text(mesh: Any) -> str:
    return str(dict(mesh.shape)) if getattr(mesh, "shape", None) else "none"


# ---- distances ----------------------------------------------------------------------------------


# The nearest key is the one that a user would call the earlier call. A type in which one axis
# differs is nearer than one of another rank:
#
#     f32[32,784], was f32[31,784]    0.5 + 0.4 / 3
#     f32[32,784], was f32[784]       0.9
#     f32[], was weak f32[]           0.5 + 0.4 * 0.25 / 2
#     a new array in a container      1.5


def apart(differing: Iterable[KeyChange]) -> float:
    """Returns the distance of two keys, given their differences."""
    return sum(map(_distance, differing))


def _distance(change: KeyChange) -> float:
    if change.kind in ("new", "gone"):
        return 1.5  # another container; fewer of them than values
    if change.kind != "type":
        return 1.0
    new, old = (text.replace("[", ",").split(",") for text in (change.new, change.old))
    if len(new) != len(old):
        return 0.9 + 0.1 * (new[0] != old[0])
    is_weak_alone = change.new.removeprefix("weak ") == change.old.removeprefix("weak ")
    differ = 0.25 if is_weak_alone else sum(a != b for a, b in zip(new, old, strict=True))
    return 0.5 + 0.4 * differ / len(new)
