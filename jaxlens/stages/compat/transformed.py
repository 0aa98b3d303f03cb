"""What JAX's other transforms returned: which one it was, and what it was told."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from jaxlens.stages.compat.import_private import private

# What JAX calls a function that its user left without a name, such as `jax.vmap(model)`.
UNNAMED = "<unnamed function>"

# By the name of the code of what they return.
_TRANSFORMS = {
    "grad_f": "grad",
    "grad_f_aux": "grad",
    "value_and_grad_f": "value_and_grad",
    "vmap_f": "vmap",
}


def transform_name(f: Any) -> str:
    """Which of JAX's transforms returned the function `f` ("grad"), or "".

    JAX's transforms return a function of their own, most of them inside one that filters
    tracebacks; both are told by the name of their code.

    Gone: "", and the transform is not named in what was taken.
    """
    code: Any = getattr(_unfiltered(f), "__code__", None)
    if code is None or not code.co_filename.endswith(("jax/_src/api.py", "jax\\_src\\api.py")):
        return ""
    if code.co_name == "jacfun":
        return "jacrev" if any("vjp" in name for name in code.co_names) else "jacfwd"
    return _TRANSFORMS.get(code.co_name, "")


def settings(f: Any) -> dict[str, Any]:
    """What a transform was told when it made the function `f`: `{"in_axes": (0, None), ...}`.

    Gone: {}, as if it had been told nothing.
    """
    inside = _unfiltered(f)
    code: Any = getattr(inside, "__code__", None)
    cells = getattr(inside, "__closure__", None) or ()
    return {
        name: cell.cell_contents
        for name, cell in zip(getattr(code, "co_freevars", ()), cells, strict=True)
    }


def wrapped(f: Any) -> Any:
    """What a function wraps, or None where it does not say.

    A transform of an object without a name, such as a Flax module, leaves `__wrapped__` as the
    filter of tracebacks set it: at the transform's own function, which holds what was transformed.

    Gone: None for such a transform.
    """
    inner = getattr(f, "__wrapped__", None)
    own = _unfiltered(f)
    if inner is None or inner is not own or own is f:
        return inner
    inside = settings(f)
    # jax.grad is made of jax.value_and_grad.
    if "fun" not in inside and "value_and_grad_f" in inside:
        inside = settings(inside["value_and_grad_f"])
    return inside.get("fun")


def is_checkpoint(f: Any) -> bool:
    """Whether `jax.checkpoint` returned the function `f`.

    Gone: False, and a ladder has no step of its own for it.
    """
    code: Any = getattr(_unfiltered(f), "__code__", None)
    name, file = getattr(code, "co_name", ""), getattr(code, "co_filename", "")
    return name == "fun_remat" and bool(file.endswith("ad_checkpoint.py"))


def _unfiltered(f: Any) -> Any:
    """What stands inside the function with which JAX filters tracebacks; `f` where it is none."""
    code: Any = getattr(f, "__code__", None)
    if getattr(code, "co_name", "") != "reraise_with_filtered_traceback":
        return f
    cells = dict(zip(code.co_freevars, f.__closure__ or (), strict=True))
    return cells["fun"].cell_contents if "fun" in cells else None


def named_axes(sizes: Mapping[Any, int]) -> AbstractContextManager[Any]:
    """Within it, axes have names, as within a `vmap` that was given one.

    Gone: a ladder cannot show what stands inside a `vmap` whose axis is named.
    """
    try:
        named: AbstractContextManager[Any] = private("core").extend_axis_env_nd(list(sizes.items()))
        return named
    except (ImportError, AttributeError):
        return nullcontext()


@contextmanager
def differentiated(
    wrap: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> Iterator[bool]:
    """Within it, reverse-mode differentiation (vjp, grad, value_and_grad) wraps its function first.

    Yields whether it does. Gone: it does not, and what `jax.checkpoint` changes cannot be tried.
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
