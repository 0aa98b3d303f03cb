"""What `jax.jit` returned: the Python function inside, and its settings."""

from collections.abc import Callable, Iterator
from typing import Any

from jaxlens.stages.compat.private_modules import private


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
        f = getattr(f, "__wrapped__", f)


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
