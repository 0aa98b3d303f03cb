"""Identifies JAX's own functions that compute, by their modules."""

import functools
from typing import Any

# `jax.config`, `jax.debug`, `jax.devices` and their like set, show or read something.
_MODULES = tuple(
    "jax.numpy jax.lax jax.nn jax.random jax.scipy jax.image jax.ops jax._src.numpy jax._src.lax "
    "jax._src.nn jax._src.random jax._src.scipy jax._src.image jax._src.ops jax._src.tree "
    "jax._src.prng jaxlens.core".split()
)
_TRANSFORMS = set(
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
    if module.startswith(_MODULES):
        return not name.startswith(("save", "load", "from"))
    return module == "jax._src.api" and name in _TRANSFORMS
