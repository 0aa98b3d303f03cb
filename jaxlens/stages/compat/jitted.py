"""What `jax.jit` returned: the Python function inside, and its settings."""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jaxlens.stages.compat.import_private import private
from jaxlens.stages.compat.transformed import wrapped


def jit_parts(f: Any) -> tuple[Callable[..., Any], Any] | None:
    """The Python function inside a jitted one, and its jit's settings; None if it is not jitted.

    The settings have `static_argnums`, `static_argnames`, `donate_argnums`,
    `donate_argnames`, `device`, `backend` and `in_shardings_leaves`.

    A decorator that uses `functools.wraps` copies the attributes that are read here, so the
    function must be a jitted one by JAX's own protocol too.

    Gone: a jitted function counts as a plain one; jit's settings act inside the program.
    """
    import jax

    if not isinstance(f, jax.stages.Wrapped):
        return None
    fun, info = getattr(f, "_fun", None), getattr(f, "_jit_info", None)
    if callable(fun) and hasattr(info, "static_argnums") and hasattr(info, "donate_argnums"):
        return fun, info
    return None


def layers(f: Any) -> Iterator[Any]:
    """A function and what it wraps, outermost first; one that wraps itself is given once.

    Gone: the function alone, as where a decorator does not say what it wraps.
    """
    seen: dict[int, Any] = {}  # kept alive: a property may make its function anew
    while id(f) not in seen:
        seen[id(f)] = f
        yield f
        f = wrapped(f) or f


def inner_jit(f: Any) -> bool:
    """Whether a callable that is not jitted itself is a library's wrapper of a jitted function.

    Equinox and Flax keep one in an attribute, decorators under `__wrapped__`; what `jax.pmap`
    returns can be lowered though it is a plain function.

    Gone: as with `jit_parts`.
    """
    for layer in layers(f):
        inner = getattr(layer, "__wrapped__", None)
        held = (inner, *getattr(layer, "__dict__", {}).values())
        if inner is not None and (
            hasattr(layer, "lower") or any(jit_parts(value) for value in held)
        ):
            return True
    return False


def is_wrapper(f: Any) -> bool:
    """Whether it hands its calls to a jitted function inside it: `nnx.jit`, `jax.pmap`, and such.

    It can be lowered as what `jax.jit` returns can, which is public. A decorator that uses
    `functools.wraps` copies the `lower` of what it decorates, and does more than that.

    Gone: as with `jit_parts`.
    """
    inner = getattr(f, "__wrapped__", None)
    if inner is None or jit_parts(f) is not None or not callable(getattr(f, "lower", None)):
        return False
    own = getattr(f, "__dict__", {}).get("lower")
    return own is None or getattr(inner, "__dict__", {}).get("lower") is not own


class _HandedOver(BaseException):
    """Ends a lowering where a jitted function is to be traced; no error, so no library's to catch.

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
    """The jitted function that a wrapper hands a call to, and the arguments it gives it.

    The wrapper's own `lower` is run up to there; nothing is traced. Meanwhile `lower` and `trace`
    of jitted functions are replaced, for this thread alone.

    Gone: None.
    """
    thread: int | None = threading.get_ident()

    def intercepted(original: Any) -> Any:
        def hand_over(jitted: Any, *args: Any, **kwargs: Any) -> Any:
            # `jax.eval_shape` traces by the same name, for a wrapper that asks it for shapes.
            shapes_only = sys._getframe(1).f_code.co_name.endswith("eval_shape")
            if shapes_only or threading.get_ident() != thread:
                return original(jitted, *args, **kwargs)
            raise _HandedOver(jitted, args, kwargs)

        return hand_over

    with _intercepting:
        originals = [(home, name, getattr(home, name)) for home, name in _lowerings()]
        try:
            for home, name, original in originals:
                setattr(home, name, intercepted(original))
            f.lower(*args, **kwargs)
        except _HandedOver as found:
            jitted, positional, named = found.call
            return jitted, positional, named
        finally:
            thread = None  # a jit made in another thread may have taken ours for JAX's
            for home, name, original in originals:
                setattr(home, name, original)
    return None


def _lowerings() -> list[tuple[Any, str]]:
    """Where `lower` and `trace` of jitted functions are looked up.

    Each jit that is made, as `jax.pmap` makes one when it is called, hangs those of the module
    into the class anew.

    Gone: in the class alone, and a wrapper that makes its jit when it is called is lowered.
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
    """Jits `fun` with the settings `info` that `jit_parts` gave.

    Gone: jit with the public settings among them.
    """
    try:
        pjit = private("pjit")
        return pjit._cpp_pjit(fun, info)
    except (ImportError, AttributeError):
        import jax

        return jax.jit(
            fun,
            static_argnums=info.static_argnums,
            static_argnames=info.static_argnames,
            donate_argnums=info.donate_argnums,
            donate_argnames=info.donate_argnames,
        )
