"""Applies transforms to a function: those of a magic's line, and those of the viewer's row."""

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlens.call import core_program
from jaxlens.call.arguments import pytrees
from jaxlens.call.arguments.inputs import leaves, positional_names, signature_of
from jaxlens.call.arguments.written_shapes import abstract
from jaxlens.call.call import Call
from jaxlens.call.traceable import TraceableCall, prepare
from jaxlens.errors import OptionError, UnavailableError, nearest

_NAMES = ("jit", "grad", "vmap", "jvp", "checkpoint")
_EXAMPLES = 8  # of a `vmap` that the viewer puts round a function


def transformed(
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    transforms: Sequence[tuple[str, str]],
    library: Any = None,
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Applies transforms to a function.

    Args:
        f: The function.
        args: Its positional arguments; only shapes and dtypes are read.
        kwargs: Its keyword arguments.
        transforms: Their names and values, outermost first: `(("vmap", "0,None"), ("grad", ""))`.
        library: `jax` or `jaxlens.core`; by default the one that the call uses.

    Returns:
        The transformed function, and `kwargs`, to which `--jvp` adds `tangents`: the shapes of
        the tangents, one per floating-point input.

    Raises:
        OptionError: A value does not fit the function.
    """
    pytrees.check_call(args, kwargs, signature_of(f))
    library = library or core_program.library_of(f, args, kwargs)
    for name, value in reversed(transforms):
        if name == "grad":
            f = library.grad(f, argnums=_argnums(f, value))
        elif name == "vmap":
            f = library.vmap(f, in_axes=axes(value))
        elif name == "jit":
            f = library.jit(f)
        elif name == "checkpoint":
            f = library.checkpoint(f)
        elif name == "jvp":
            f, kwargs = _jvp(f, args, kwargs, library)
    return f, kwargs


def under(
    call: TraceableCall,
    written: Call,
    transforms: Sequence[tuple[str, str]],
    pressed: bool = False,
) -> TraceableCall:
    """Returns a call under transforms, with arguments that fit them; what is static stays so.

    Args:
        call: The call, ready to be traced.
        written: The same as the user wrote it, by whose arguments it is transformed.
        transforms: "jit", "grad", "vmap", "jvp" or "checkpoint", each with what `--grad` and
            `--vmap` take, outermost first; "" for axis 0 of all arguments, and for the first.
        pressed: Whether it is one of the viewer's row: its `vmap` adds an axis of 8 examples to
            the arguments, its `grad` is by the first that has numbers with a gradient.

    Raises:
        OptionError: There is no such transform, or its value does not fit.
        UnavailableError: A library's jit stands between what is static and the function.
    """
    library: Any = jax if call.core is None else sys.modules["jaxlens.core"]
    f, args, kwargs = written.function, written.args, written.kwargs
    whole = call.unwrapped
    bound = len(whole.args) - len(args)  # the object of a method
    leaves = jax.tree_util.tree_leaves((whole.args, whole.kwargs))
    has_static = len(leaves) > len(call.inputs)
    if call.inner is not None and (pressed or has_static):
        raise UnavailableError(
            f"a library jits {call.name}: look at the function inside, which a transform can take"
        )
    if call.unjitted and has_static:
        # An object, a function or a text among them: no transform takes those.
        f, args, kwargs = call.traceable.__wrapped__, call.args[bound:], call.kwargs
        f = functools.partial(f, *call.args[:bound]) if bound else f
    args, kwargs = by_position(f, args, kwargs)
    if pressed:
        ((name, value),) = transforms
        args, kwargs, value = _fitted(args, kwargs, name, value)
        transforms = [(name, value)]
    f, kwargs = transformed(f, args, kwargs, transforms, library)
    if call.static and call.inner is None:
        argnums = [place - bound for place in call.static if isinstance(place, int)]
        argnames = [place for place in call.static if isinstance(place, str)]
        f = library.jit(f, static_argnums=argnums, static_argnames=argnames)
    made = prepare(f, args, kwargs, call.name, call.core is not None)
    return replace(made, statics=call.statics)


def _fitted(
    args: tuple[Any, ...], kwargs: dict[str, Any], name: str, value: str
) -> tuple[tuple[Any, ...], dict[str, Any], str]:
    """Returns arguments, as shapes with an axis of examples under `vmap`, and the value."""
    if name not in _NAMES:
        raise OptionError(f"no transform {name!r}; {nearest(name, _NAMES)}")
    if name == "grad" and not value:
        value = str(next((n for n, arg in enumerate(args) if _has_gradient(arg)), 0))
    if name != "vmap":
        return args, kwargs, value
    mapped = axis_per_argument(axes(value), len(args))
    if len(mapped) != len(args):
        raise OptionError(
            f"vmap takes an axis for each of {len(args)} arguments, got {len(mapped)}: "
            f"{','.join(['0'] * len(args))}"
        )
    args = tuple(_with_axis(arg, axis) for arg, axis in zip(args, mapped, strict=True))
    return args, {key: _with_axis(argument, 0) for key, argument in kwargs.items()}, value


def _has_gradient(arg: Any) -> bool:
    leaves = jax.tree_util.tree_leaves(arg)
    types = [jax.dtypes.result_type(x) for x in leaves if hasattr(x, "dtype") or type(x) is float]
    return any(jnp.issubdtype(dtype, jnp.inexact) for dtype in types)


def _with_axis(arg: Any, axis: int | None) -> Any:
    """Returns an argument whose arrays have one more axis, as shapes; as it is for None."""
    if axis is None:
        return arg
    return jax.tree_util.tree_map(functools.partial(_leaf_with_axis, axis), arg)


def _leaf_with_axis(axis: int, leaf: Any) -> Any:
    if not (hasattr(leaf, "dtype") or isinstance(leaf, bool | int | float | complex)):
        return leaf
    shape = list(np.shape(leaf))
    if not -len(shape) - 1 <= axis <= len(shape):
        raise OptionError(f"vmap: an array of shape {tuple(shape)} cannot have axis {axis}")
    shape.insert(axis if axis >= 0 else axis + len(shape) + 1, _EXAMPLES)
    return abstract(tuple(shape), jax.dtypes.result_type(leaf))


def by_position(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Moves keyword arguments to their positions, up to the first parameter without a value.

    JAX's transforms differentiate and map by position.
    """
    positional, named = list(args), dict(kwargs)
    for name in positional_names(signature_of(f))[len(positional) :]:
        if name not in named:
            break
        positional.append(named.pop(name))
    return tuple(positional), named


def _argnums(f: Callable[..., Any], value: str) -> int | tuple[int, ...]:
    """Parses argnums: `"0"`, `"0,2"`, or names of positional parameters; 0 by default."""
    names = positional_names(signature_of(f))
    argnums = []
    for word in (value or "0").split(","):
        word = word.strip()
        if word.isdigit():
            argnums.append(int(word))
        elif word in names:
            argnums.append(names.index(word))
        else:
            raise OptionError(f"--grad: no positional argument {word!r}; {nearest(word, names)}")
    return argnums[0] if len(argnums) == 1 else tuple(argnums)


def axes(value: str) -> int | tuple[int | None, ...]:
    """Parses in_axes: `"0"` for every argument, or one per positional argument: `"0,None"`."""
    in_axes: list[int | None] = []
    for word in (value or "0").strip("() ").split(","):
        word = word.strip()
        if word == "None":
            in_axes.append(None)
        elif word.lstrip("-").isdigit():
            in_axes.append(int(word))
        elif word:
            raise OptionError(f"--vmap takes axes such as 0 or 0,None, got {word!r}")
    first = in_axes[0]
    if len(in_axes) == 1 and first is not None and "," not in value:
        return first
    return tuple(in_axes)


def axis_per_argument(axes: Any, count: int) -> tuple[Any, ...]:
    """Returns in_axes with one entry per positional argument."""
    return tuple(axes) if isinstance(axes, tuple | list) else (axes,) * count


def _jvp(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], library: Any
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Returns a function of the primals and of `tangents`, a dict by input name."""
    signature = signature_of(f)
    tangents = {
        leaf.name: abstract(jnp.shape(leaf.value), leaf.value.dtype)
        for leaf in leaves(args, kwargs, signature)
        if hasattr(leaf.value, "dtype") and jnp.issubdtype(leaf.value.dtype, jnp.inexact)
    }

    @functools.wraps(f)
    def jvp(*primals: Any, tangents: dict[str, Any], **named: Any) -> Any:
        flat = leaves(primals, named, signature)
        tree = jax.tree_util.tree_structure((primals, named))
        values = [leaf.value for leaf in flat]
        slots = {leaf.name: i for i, leaf in enumerate(flat)}
        indices = [slots[name] for name in tangents]

        def of_primals(*moved_values: Any) -> Any:
            full = list(values)
            for i, value in zip(indices, moved_values, strict=True):
                full[i] = value
            positional, keywords = jax.tree.unflatten(tree, full)
            return f(*positional, **keywords)

        return library.jvp(of_primals, tuple(values[i] for i in indices), tuple(tangents.values()))

    if signature is not None:  # of `f` and `tangents`, to keep the names of the inputs
        parameters = list(signature.parameters.values())
        has_kwargs = parameters and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD
        parameter = inspect.Parameter("tangents", inspect.Parameter.KEYWORD_ONLY)
        parameters.insert(len(parameters) - bool(has_kwargs), parameter)
        jvp.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    jvp._jaxlens = "jvp"  # type: ignore[attr-defined] # recognised like JAX's own transforms
    return jvp, {**kwargs, "tangents": tangents}
