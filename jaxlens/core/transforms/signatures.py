"""Which argument is which: by position, by name, traced or static.

A transformation sees a flat list of leaves; its options and its errors are about arguments, as the
user wrote them. So the signature of the function is read here: `static_argnums=1` and `n` are the
same argument, the third leaf is `params['w']`. Static arguments are removed before the others are
flattened, and inserted again in the function that is traced (`filled`).
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from jaxlens.core.kernel.interpreter import ForeignTracerError, Value, aval_of
from jaxlens.core.kernel.types import ShapedArray
from jaxlens.core.transforms.trees import TreeDef, paths, tree_flatten

Static = tuple[tuple[int | str, type, Any], ...]  # position or name, class and value of each


def parameters(f: Callable[..., Any]) -> tuple[list[str], str | None, list[str] | None]:
    """Returns the names of positional parameters, of `*args`, and of all that may be keywords.

    The last is None if the function takes any keyword.
    """
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return [], "args", None
    names = [p.name for p in parameters if p.kind <= p.POSITIONAL_OR_KEYWORD]
    more = next((p.name for p in parameters if p.kind == p.VAR_POSITIONAL), None)
    open_ended = any(p.kind == p.VAR_KEYWORD for p in parameters)
    return names, more, None if open_ended else [p.name for p in parameters if p.name != more]


def arguments(
    f: Callable[..., Any], in_tree: TreeDef, static: Sequence[tuple[int | str, Any, Any]] = ()
) -> list[tuple[int | str, str]]:
    """Returns the argument of each leaf, by position or name, and the leaf as text: `params['w']`.

    Args:
        f: The function.
        in_tree: The tree of `(args, kwargs)`, without static arguments.
        static: The static arguments, each beginning with its position or name.
    """
    names, more, _ = parameters(f)
    args, kwargs = in_tree.children
    omitted = {where for where, *_ in static}
    positions = [n for n in range(len(args.children) + len(omitted)) if n not in omitted]
    given: list[tuple[int | str, str, TreeDef]] = []
    for n, tree in zip(positions, args.children, strict=False):
        given.append((n, names[n] if n < len(names) else f"{more}[{n - len(names)}]", tree))
    keywords: Any = kwargs.data
    given += zip(keywords, keywords, kwargs.children, strict=True)
    return [(where, name + "".join(path)) for where, name, tree in given for path in paths(tree)]


def types_of(
    f: Callable[..., Any], in_tree: TreeDef, leaves: Sequence[Any], static: Static = ()
) -> list[ShapedArray]:
    """Returns the types of the leaves of `(args, kwargs)`.

    Raises:
        TypeError: A leaf is not an array; names the argument.
    """
    try:
        return [x.aval if isinstance(x, Value) else aval_of(x) for x in leaves]
    except TypeError:
        pairs = zip(leaves, arguments(f, in_tree, static), strict=True)
        return [type_of(f, leaf, argument) for leaf, (_, argument) in pairs]


def type_of(f: Callable[..., Any], leaf: Any, argument: str) -> ShapedArray:
    """Returns the type of one leaf; raises as `types_of` does."""
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


def fitting(program: Any, stage: str, args: Any, kwargs: dict[str, Any]) -> list[Any]:
    """Returns the leaves of the arguments of a program, checked against its types.

    Args:
        program: Has `fun_name`, and for its arguments `in_tree`, `in_avals` and `arg_names`.
        stage: What was done at these types, for the errors: `compiled`.
        args: The arguments of this call.
        kwargs: Its keyword arguments.

    Raises:
        TypeError: The tree or a type is another.
    """
    leaves, tree = tree_flatten((args, kwargs))
    label = f"{program.fun_name} was {stage}"
    if tree != program.in_tree:
        raise TypeError(
            f"{label} for (args, kwargs) in the containers {program.in_tree}, got {tree}."
        )
    triples = zip(leaves, program.in_avals, program.arg_names, strict=True)
    for leaf, expected, name in triples:
        aval = aval_of(leaf)
        if aval.strong != expected.strong:
            raise TypeError(
                f"{label} for {expected.str_short()} as argument {name}, got {aval.str_short()}."
            )
    return leaves


# ---- static arguments ---------------------------------------------------------------------------


def chosen(
    f: Callable[..., Any], nums: int | Sequence[int], names: str | Sequence[str], option: str
) -> frozenset[int | str]:
    """Returns positions and names of the arguments that an option of `jit` names.

    Raises:
        ValueError: The function has no such argument.
    """
    positional, more, named = parameters(f)
    count = len(positional)
    arguments: set[int | str] = set()
    for num in (nums,) if isinstance(nums, int) else nums:
        if not (0 <= num < count or (num >= count if more else -count <= num < 0)):
            raise ValueError(
                f"jit: {option}nums names argument {num} of {name_of(f)}, which takes "
                f"{count} positional arguments: {', '.join(positional)}."
            )
        arguments.add(num if num >= 0 else num + count)
    for name in (names,) if isinstance(names, str) else names:
        if named is not None and name not in named:
            raise ValueError(
                f"jit: {option}names names argument {name!r} of {name_of(f)}, which has "
                f"{', '.join(named) or 'none'}."
            )
        arguments.add(name)
    both: list[set[int | str]] = [{n, name} for n, name in enumerate(positional)]
    return frozenset(arguments.union(*(pair for pair in both if pair & arguments)))


def name_of(f: Callable[..., Any]) -> str:
    """Returns the name of a function."""
    return getattr(f, "__name__", type(f).__name__)


def without_static(
    chosen: frozenset[int | str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], Static]:
    """Returns the arguments that are traced, and the static ones."""
    arguments: list[tuple[int | str, Any]] = [*enumerate(args), *sorted(kwargs.items())]
    static = tuple((where, type(x), x) for where, x in arguments if where in chosen)
    rest = tuple(x for n, x in enumerate(args) if n not in chosen)
    return rest, {name: x for name, x in kwargs.items() if name not in chosen}, static


def filled(f: Callable[..., Any], static: Static) -> Callable[..., Any]:
    """Returns the function of the traced arguments only, with the static ones filled in."""

    def of_traced(*args: Any, **kwargs: Any) -> Any:
        positional = list(args)
        for where, _, value in static:
            if isinstance(where, int):
                positional.insert(where, value)
            else:
                kwargs[where] = value
        return f(*positional, **kwargs)

    return of_traced


def unhashable(f: Callable[..., Any], static: Static) -> Exception:
    """Returns the error for a static value that cannot be hashed."""
    for where, kind, value in static:
        try:
            hash(value)
        except TypeError:
            names = parameters(f)[0]
            name = names[where] if isinstance(where, int) and where < len(names) else where
            return ValueError(
                f"Non-hashable static arguments are used: argument {name} of {name_of(f)} is of "
                f"type {kind.__name__}. Give a value that hashes, such as a tuple for a list, or "
                f"trace the argument."
            )
    raise
