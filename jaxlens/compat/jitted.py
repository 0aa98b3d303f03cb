"""Reads the Python function and the settings of a function that `jax.jit` returned."""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jaxlens.compat.import_private import private
from jaxlens.compat.transformed import attribute, wrapped
from jaxlens.interrupts import uninterrupted


def jit_parts(f: Any) -> tuple[Callable[..., Any], Any] | None:
    """Returns the Python function and the jit settings of a jitted function; None for others.

    The settings have `static_argnums`, `static_argnames`, `donate_argnums`,
    `donate_argnames`, `device`, `backend` and `in_shardings_leaves`.

    A decorator that uses `functools.wraps` copies the settings, and the methods of a jitted
    function are its class's, so it must have both.

    Gone: a jitted function counts as a plain one, and is a jit within the traced program.
    """
    if not (hasattr(type(f), "trace") and hasattr(type(f), "lower")):
        return None
    fun, info = attribute(f, "_fun"), attribute(f, "_jit_info")
    if callable(fun) and hasattr(info, "static_argnums") and hasattr(info, "donate_argnums"):
        return fun, info
    return None


def layers(f: Any) -> Iterator[Any]:
    """Yields a function and those that it wraps, outermost first; ends at a cycle.

    Gone: the function only, as for a decorator that does not set `__wrapped__`.
    """
    functions: dict[
        int, Any
    ] = {}  # keeps them alive: a property may return a new function each time
    while id(f) not in functions:
        functions[id(f)] = f
        yield f
        f = wrapped(f) or f


def inner_jit(f: Any) -> bool:
    """Whether a callable that is not jitted itself wraps a jitted function.

    Equinox and Flax have the jitted function in an attribute, decorators in `__wrapped__`. The
    result of `jax.pmap` is a plain function with a `lower` method.

    Gone: as with `jit_parts`.
    """
    for layer in layers(f):
        inner = attribute(layer, "__wrapped__")
        values = (inner, *getattr(layer, "__dict__", {}).values())
        if inner is not None and (attribute(layer, "lower") or any(map(jit_parts, values))):
            return True
    return False


def is_wrapper(f: Any) -> bool:
    """Whether a callable passes its calls to an inner jitted function: `nnx.jit`, `jax.pmap`.

    It has a `lower` method of its own, like the result of `jax.jit`. A `lower` that a decorator has
    copied by `functools.wraps` does not count: it skips what the decorator does.

    Gone: as with `jit_parts`.
    """
    inner = attribute(f, "__wrapped__")
    if inner is None or jit_parts(f) is not None or not callable(attribute(f, "lower")):
        return False
    own = getattr(f, "__dict__", {}).get("lower")
    return own is None or getattr(inner, "__dict__", {}).get("lower") is not own


class _HandedOver(BaseException):
    """Stops a lowering at the trace of a jitted function; `except Exception` does not catch it.

    Attributes:
        call: The jitted function, its positional and its keyword arguments.
    """

    def __init__(self, *call: Any) -> None:
        super().__init__()
        self.call = call


_intercepting = threading.Lock()


def handed_over(
    f: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
    """Returns the jitted function that a wrapper calls, and the arguments that it passes.

    Runs the wrapper's own `lower` up to that call; nothing is traced. Until then `lower` and
    `trace` of jitted functions are patched; other threads get the original behaviour.

    Gone: None.
    """
    thread: int | None = threading.get_ident()

    def intercepted(original: Any) -> Any:
        def hand_over(jitted: Any, *args: Any, **kwargs: Any) -> Any:
            # A wrapper may call `jax.eval_shape`, which traces by the same method.
            shapes_only = sys._getframe(1).f_code.co_name.endswith("eval_shape")
            if shapes_only or threading.get_ident() != thread:
                return original(jitted, *args, **kwargs)
            raise _HandedOver(jitted, args, kwargs)

        return hand_over

    with _intercepting:
        try:
            with _lowerings_by(intercepted):
                f.lower(*args, **kwargs)
        except _HandedOver as handed:
            jitted, positional, named = handed.call
            return jitted, positional, named
        finally:
            thread = None  # a jit made in another thread meanwhile may have our patch for good
    return None


@uninterrupted
def _lowerings_by(intercepted: Callable[[Any], Callable[..., Any]]) -> Iterator[None]:
    originals = [(home, name, getattr(home, name)) for home, name in _lowerings()]
    try:
        for home, name, original in originals:
            setattr(home, name, intercepted(original))
        yield
    finally:
        for home, name, original in originals:
            setattr(home, name, original)


def _lowerings() -> list[tuple[Any, str]]:
    """Returns the objects and attribute names to patch for `lower` and `trace` of jitted functions.

    Each new jit, such as `jax.pmap` makes when it is called, sets the functions of the module
    `pjit` on the class again, so both are patched.

    Gone: the class only; a wrapper that makes its jit during the call is then really lowered.
    """
    import jax

    kind: Any = type(jax.jit(lambda: None))
    homes = [(kind, "lower"), (kind, "trace")]
    try:
        pjit = private("pjit")
    except (ImportError, AttributeError):
        return homes
    return homes + [(pjit, name) for name in ("jit_lower", "jit_trace") if hasattr(pjit, name)]


def rejit(fun: Callable[..., Any], info: Any) -> Any:
    """Jits `fun` with the settings `info` of `jit_parts`.

    Gone: `jax.jit` with only those settings that are public.
    """
    try:
        return private("pjit")._cpp_pjit(fun, info)
    except (ImportError, AttributeError):
        import jax

        names = ("static_argnums", "static_argnames", "donate_argnums", "donate_argnames")
        return jax.jit(fun, **{name: getattr(info, name) for name in names})
