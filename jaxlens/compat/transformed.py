"""Identifies the JAX transform that returned a function, and JAX's own functions that compute."""

import functools
import inspect
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType
from typing import Any

from jaxlens.compat.import_private import private
from jaxlens.interrupts import uninterrupted

# JAX's name for a function without `__name__`, such as the `model` in `jax.vmap(model)`.
UNNAMED = "<unnamed function>"

# By the code name of the returned function.
_TRANSFORMS = {
    "grad_f": "grad",
    "grad_f_aux": "grad",
    "value_and_grad_f": "value_and_grad",
    "vmap_f": "vmap",
}


def transform_name(f: Any) -> str:
    """Returns the name of the JAX transform that returned `f` ("grad"), or "".

    JAX's transforms return an inner function, most of them wrapped in one that filters tracebacks.
    Both are identified by the name of their code.

    Gone: "", and the header of an answer does not name the transform.
    """
    code = attribute(_unfiltered(f), "__code__")
    if code is None or not code.co_filename.endswith(("jax/_src/api.py", "jax\\_src\\api.py")):
        return ""
    if code.co_name == "jacfun":
        return "jacrev" if any("vjp" in name for name in code.co_names) else "jacfwd"
    return _TRANSFORMS.get(code.co_name, "")


def attribute(f: Any, name: str) -> Any:
    """Returns an attribute of an object or of its class; None if only `__getattr__` finds it.

    An object that lends the attributes of a function (`trace`, `__code__`) may call it otherwise.
    A bound method has those of its function.

    Gone: nothing, as no name of JAX's is read.
    """
    if type(f) is FunctionType:
        return getattr(f, name, None)
    holders = (f, f.__func__) if type(f) is MethodType else (f,)
    is_found = any(inspect.getattr_static(holder, name, None) is not None for holder in holders)
    return getattr(f, name, None) if is_found else None


def settings(f: Any) -> dict[str, Any]:
    """Returns the arguments of the transform that returned `f`: `{"in_axes": (0, None), ...}`.

    Gone: {}, as if the transform had no arguments.
    """
    inside = _unfiltered(f)
    code = attribute(inside, "__code__")
    cells = attribute(inside, "__closure__") or ()
    return {
        name: cell.cell_contents
        for name, cell in zip(getattr(code, "co_freevars", ()), cells, strict=True)
    }


def wrapped(f: Any) -> Any:
    """Returns the function that `f` wraps; None if it is unknown.

    For an object without a `__name__`, such as a Flax module, a transform leaves `__wrapped__` as
    the traceback filter has set it: to the transform's inner function. The transformed object is
    in the closure of that function.

    Gone: None for such a transform.
    """
    inner = attribute(f, "__wrapped__")
    own = _unfiltered(f)
    if inner is None or inner is not own or own is f:
        return inner
    inside = settings(f)
    # jax.grad is made of jax.value_and_grad.
    if "fun" not in inside and "value_and_grad_f" in inside:
        inside = settings(inside["value_and_grad_f"])
    return inside.get("fun")


def pmapped(f: Any) -> Any:
    """Returns the user's function in the one that `jax.pmap` jits; None for any other function.

    Gone: None, and a program of `jax.pmap` is not told from JAX's own.
    """
    inner = getattr(f, "__wrapped__", None)
    code = getattr(inner, "__code__", None)
    if getattr(code, "co_qualname", "") != "_cached_shard_map.<locals>._fun":
        return None
    return getattr(settings(inner).get("fun"), "f", None)


def is_checkpoint(f: Any) -> bool:
    """Whether `jax.checkpoint` returned the function `f`.

    Gone: False, and a ladder has no separate step for it.
    """
    code = attribute(_unfiltered(f), "__code__")
    name, file = getattr(code, "co_name", ""), getattr(code, "co_filename", "")
    return name == "fun_remat" and bool(file.endswith("ad_checkpoint.py"))


def _unfiltered(f: Any) -> Any:
    """Returns the function inside JAX's traceback filter; `f` if it is not filtered."""
    code = attribute(f, "__code__")
    if getattr(code, "co_name", "") != "reraise_with_filtered_traceback":
        return f
    cells = dict(zip(code.co_freevars, f.__closure__ or (), strict=True))
    return cells["fun"].cell_contents if "fun" in cells else None


@uninterrupted
def differentiated(wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[bool]:
    """Applies `wrap` to every function that vjp, grad or value_and_grad differentiates.

    Yields whether it does. Gone: False, and the effect of `jax.checkpoint` cannot be tried.
    """
    import jax

    try:
        api = private("api")
        original = api.vjp
    except (ImportError, AttributeError):
        yield False
        return

    def vjp(fun: Callable[..., Any], *primals: Any, **options: Any) -> Any:
        return original(wrap(fun), *primals, **options)

    places: list[Any] = [place for place in (api, jax) if place.vjp is original]
    for place in places:
        place.vjp = vjp
    try:
        yield True
    finally:
        for place in places:
            place.vjp = original


# `jax.config`, `jax.debug`, `jax.devices` and their like set, show or read something.
_COMPUTING = tuple(
    "jax.numpy jax.lax jax.nn jax.random jax.scipy jax.image jax.ops jax._src.numpy jax._src.lax "
    "jax._src.nn jax._src.random jax._src.scipy jax._src.image jax._src.ops jax._src.tree "
    "jax._src.prng jaxlens.core".split()
)
_API = set(
    "vmap grad value_and_grad jacfwd jacrev jacobian hessian jvp jit checkpoint pmap linearize "
    "vjp".split()
)


def computes(function: Any) -> bool:
    """Whether a call of the function computes with JAX, and does not print, set or read.

    Gone (the functions are in other modules): False; an expression of such functions is not
    traced, and the answer is about the programs that it called.
    """
    while isinstance(function, functools.partial):
        function = function.func
    module = getattr(function, "__module__", None)
    name = str(getattr(function, "__name__", ""))
    if not isinstance(module, str):
        module = type(function).__module__
    if module.startswith(_COMPUTING):
        return not name.startswith(("save", "load", "from"))
    return module == "jax._src.api" and name in _API
