"""Which argument is which: by position, by name, traced or static.

A transformation sees a flat list of leaves; its options and its errors are about arguments, as the
user wrote them. So here the signature of a function is read: `static_argnums=1` and `n` are the
same argument, the third leaf is `params['w']`. What is static is taken out before the arguments are
flattened, and put back round the function that is traced.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from jaxlens.core.kernel.interpreter import Value, aval_of
from jaxlens.core.kernel.tree import TreeDef, tree_flatten
from jaxlens.core.kernel.types import ShapedArray
from jaxlens.core.transforms.errors import ForeignTracerError
from jaxlens.core.transforms.trees import paths

Static = tuple[tuple[int | str, type, Any], ...]  # position or name, class and value of each


def parameters(f: Callable[..., Any]) -> tuple[list[str], str | None, list[str] | None]:
    """Names of a function's positional parameters, of its `*args`, and of all that may be named.

    The last is None where any name will do.
    """
    try:
        found = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return [], "args", None
    names = [p.name for p in found if p.kind <= p.POSITIONAL_OR_KEYWORD]
    more = next((p.name for p in found if p.kind == p.VAR_POSITIONAL), None)
    open_ended = any(p.kind == p.VAR_KEYWORD for p in found)
    return names, more, None if open_ended else [p.name for p in found if p.name != more]


def arguments(
    f: Callable[..., Any], in_tree: TreeDef, static: Sequence[tuple[int | str, Any, Any]] = ()
) -> list[tuple[int | str, str]]:
    """Which argument each leaf of `(args, kwargs)` is in, and how it is written: `params['w']`.

    Args:
        f: The function.
        in_tree: The tree of `(args, kwargs)`, of what is not static.
        static: The arguments that are left out there: their positions or names come first.
    """
    names, more, _ = parameters(f)
    left_out = {where for where, *_ in static}
    last = len(in_tree.children[0].children) + len(left_out)
    places = [n for n in range(last) if n not in left_out]
    found: list[tuple[int | str, str]] = []
    for kind, first, *rest in paths(in_tree):
        if kind == "[1]":
            where: int | str = first[2:-2]
            name = str(where)
        else:
            where = places[int(first[1:-1])]
            name = names[where] if where < len(names) else f"{more}[{where - len(names)}]"
        found.append((where, name + "".join(rest)))
    return found


def types_of(
    f: Callable[..., Any], in_tree: TreeDef, leaves: Sequence[Any], static: Static = ()
) -> list[ShapedArray]:
    """The types of the leaves of `(args, kwargs)`.

    Raises:
        TypeError: One is no array; names the argument.
    """
    try:
        return [x.aval if isinstance(x, Value) else aval_of(x) for x in leaves]
    except TypeError:
        pairs = zip(leaves, arguments(f, in_tree, static), strict=True)
        return [type_of(f, leaf, argument) for leaf, (_, argument) in pairs]


def type_of(f: Callable[..., Any], leaf: Any, argument: str) -> ShapedArray:
    """The type of what a function is given as an argument; raises as `types_of` does."""
    try:
        return aval_of(leaf)
    except ForeignTracerError:
        raise
    except TypeError:
        kind = type(leaf).__name__ + (f" of {leaf.dtype}" if hasattr(leaf, "dtype") else "")
        raise TypeError(
            f"Cannot interpret value of type {kind} as an array: argument {argument} of "
            f"{name_of(f)}, {str(leaf)!r:.60}. Give arrays and numbers; register the class of a "
            f"container (core.register_pytree_node), or name the argument in static_argnums of jit."
        ) from None


def fitting(
    what: str,
    in_tree: TreeDef,
    in_avals: Sequence[ShapedArray],
    names: Sequence[str],
    given: tuple[tuple[Any, ...], dict[str, Any]],
) -> list[Any]:
    """The leaves of the arguments of a program that is for these types only.

    Args:
        what: The program, in words: `f was compiled`.
        in_tree: The tree of `(args, kwargs)` that it is for.
        in_avals: The types of their leaves.
        names: How each leaf is written.
        given: Its `(args, kwargs)`.

    Raises:
        TypeError: They are of others.
    """
    leaves, tree = tree_flatten(given)
    if tree is not in_tree:
        raise TypeError(f"{what} for (args, kwargs) in the containers {in_tree}, got {tree}.")
    for leaf, expected, name in zip(leaves, in_avals, names, strict=True):
        got = aval_of(leaf)
        if got.strong is not expected.strong:
            raise TypeError(
                f"{what} for {expected.str_short()} as argument {name}, got {got.str_short()}."
            )
    return leaves


# ---- static arguments ---------------------------------------------------------------------------


def chosen(
    f: Callable[..., Any], nums: int | Sequence[int], names: str | Sequence[str], what: str
) -> frozenset[int | str]:
    """Positions and names of the arguments that an option of `jit` is about.

    Raises:
        ValueError: The function has no such argument.
    """
    known, more, named = parameters(f)
    count = len(known)
    found: set[int | str] = set()
    for num in (nums,) if isinstance(nums, int) else nums:
        if not (0 <= num < count or (num >= count if more else -count <= num < 0)):
            raise ValueError(
                f"jit: {what}nums names argument {num} of {name_of(f)}, which takes "
                f"{count} positional arguments: {', '.join(known)}."
            )
        found.add(num if num >= 0 else num + count)
    for name in (names,) if isinstance(names, str) else names:
        if named is not None and name not in named:
            raise ValueError(
                f"jit: {what}names names argument {name!r} of {name_of(f)}, which has "
                f"{', '.join(named) or 'none'}."
            )
        found.add(name)
    both: list[set[int | str]] = [{n, name} for n, name in enumerate(known)]
    return frozenset(found.union(*(pair for pair in both if pair & found)))


def name_of(f: Callable[..., Any]) -> str:
    """What a function is called."""
    return getattr(f, "__name__", type(f).__name__)


def without_static(
    chosen: frozenset[int | str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], Static]:
    """The arguments that are traced, and those that are not."""
    every: list[tuple[int | str, Any]] = [*enumerate(args), *sorted(kwargs.items())]
    static = tuple((where, type(x), x) for where, x in every if where in chosen)
    rest = tuple(x for n, x in enumerate(args) if n not in chosen)
    return rest, {name: x for name, x in kwargs.items() if name not in chosen}, static


def filled(f: Callable[..., Any], static: Static) -> Callable[..., Any]:
    """The function of the arguments that are traced."""

    def of_traced(*args: Any, **kwargs: Any) -> Any:
        every = list(args)
        for where, _, value in static:
            if isinstance(where, int):
                every.insert(where, value)
            else:
                kwargs[where] = value
        return f(*every, **kwargs)

    return of_traced


def unhashable(f: Callable[..., Any], static: Static, error: type = ValueError) -> Exception:
    """The error for a static value that does not hash."""
    for where, kind, value in static:
        try:
            hash(value)
        except TypeError:
            known = parameters(f)[0]
            name = known[where] if isinstance(where, int) and where < len(known) else where
            found: Exception = error(
                f"Non-hashable static arguments are used: argument {name} of {name_of(f)} is of "
                f"type {kind.__name__}. Give a value that hashes, such as a tuple for a list, or "
                f"trace the argument."
            )
            return found
    raise
