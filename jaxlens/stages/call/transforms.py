"""Applies the transforms of `--grad`, `--vmap`, `--jvp` and `--jit` to a function."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxlens.errors import OptionError, nearest
from jaxlens.stages.arguments import pytrees
from jaxlens.stages.arguments.inputs import signature_of
from jaxlens.stages.arguments.written_shapes import abstract
from jaxlens.stages.core import program as core_program


def transformed(
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    asked: Sequence[tuple[str, str]],
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Applies transforms to a function.

    Args:
        f: The function.
        args: Its positional arguments; only shapes and dtypes are read.
        kwargs: Its keyword arguments.
        asked: Transforms with their values, outermost first: `(("vmap", "0,None"), ("grad", ""))`.

    Returns:
        The transformed function, and `kwargs`, to which `--jvp` adds `tangents`: the shapes of
        the tangents, one per floating-point input.

    Raises:
        OptionError: A value does not fit the function.
    """
    pytrees.check_call(args, kwargs, signature_of(f))
    by: Any = core_program.maker(f, args, kwargs)
    for name, value in reversed(asked):
        if name == "grad":
            f = by.grad(f, argnums=_argnums(f, value))
        elif name == "vmap":
            f = by.vmap(f, in_axes=axes(value))
        elif name == "jit":
            f = by.jit(f)
        elif name == "jvp":
            f, kwargs = _jvp(f, args, kwargs, by)
    return f, kwargs


def by_position(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Moves keyword arguments to their positions, up to the first parameter without a value.

    JAX's transforms differentiate and map by position.
    """
    given, named = list(args), dict(kwargs)
    for name in _positional(f)[len(given) :]:
        if name not in named:
            break
        given.append(named.pop(name))
    return tuple(given), named


def _argnums(f: Callable[..., Any], value: str) -> int | tuple[int, ...]:
    """Parses argnums: `"0"`, `"0,2"`, or names of positional parameters; 0 by default."""
    names = _positional(f)
    found = []
    for word in (value or "0").split(","):
        word = word.strip()
        if word.isdigit():
            found.append(int(word))
        elif word in names:
            found.append(names.index(word))
        else:
            raise OptionError(f"--grad: no positional argument {word!r}; {nearest(word, names)}")
    return found[0] if len(found) == 1 else tuple(found)


def _positional(f: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def axes(value: str) -> int | tuple[int | None, ...]:
    """Parses in_axes: `"0"` for every argument, or one per positional argument: `"0,None"`."""
    found: list[int | None] = []
    for word in (value or "0").strip("() ").split(","):
        word = word.strip()
        if word == "None":
            found.append(None)
        elif word.lstrip("-").isdigit():
            found.append(int(word))
        elif word:
            raise OptionError(f"--vmap takes axes such as 0 or 0,None, got {word!r}")
    first = found[0]
    return first if len(found) == 1 and first is not None and "," not in value else tuple(found)


def _jvp(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], by: Any
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Returns a function of the primals and of `tangents`, a dict by input name."""
    leaves = jax.tree_util.tree_leaves_with_path((tuple(args), kwargs))
    names = _positional(f)
    paths = {_label(path, names): leaf for path, leaf in leaves if _is_float(leaf)}
    tangents = {name: abstract(jnp.shape(x), x.dtype) for name, x in paths.items()}

    @functools.wraps(f)
    def jvp(*primals: Any, tangents: dict[str, Any], **named: Any) -> Any:
        flat, tree = jax.tree_util.tree_flatten_with_path((primals, named))
        values = [leaf for _, leaf in flat]
        slots = {_label(path, names): i for i, (path, _) in enumerate(flat)}
        moving = [slots[name] for name in tangents]

        def of_moving(*moved: Any) -> Any:
            full = list(values)
            for i, value in zip(moving, moved, strict=True):
                full[i] = value
            again, keywords = jax.tree.unflatten(tree, full)
            return f(*again, **keywords)

        return by.jvp(of_moving, tuple(values[i] for i in moving), tuple(tangents.values()))

    _declare(jvp, f)
    jvp._jaxlens = "jvp"  # type: ignore[attr-defined] # recognised like JAX's own transforms
    return jvp, {**kwargs, "tangents": tangents}


def _declare(jvp: Callable[..., Any], f: Callable[..., Any]) -> None:
    """Sets the signature of `jvp` to that of `f` plus `tangents`, to keep the inputs' names."""
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):
        return
    tangents = inspect.Parameter("tangents", inspect.Parameter.KEYWORD_ONLY)
    own = list(signature.parameters.values())
    place = len(own) - bool(own and own[-1].kind is inspect.Parameter.VAR_KEYWORD)
    own.insert(place, tangents)
    jvp.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]


def _is_float(leaf: Any) -> bool:
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and jnp.issubdtype(dtype, jnp.inexact)


def _label(path: tuple[Any, ...], names: Sequence[str]) -> str:
    """Returns a leaf's name, as `params['w']`, for its path in `(args, kwargs)`."""
    where, which, *rest = path
    position = getattr(which, "idx", None)
    if where.idx == 0 and position is not None:
        head = names[position] if position < len(names) else f"args[{position}]"
    else:
        head = str(which.key)
    return head + jax.tree_util.keystr(tuple(rest))
