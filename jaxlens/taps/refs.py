"""Executes equations by themselves, and tells kinds of values apart.

Refs are copies, so that none of the user's is written. A ref cannot leave what is compiled. So an
equation that makes one is executed by itself, and the pieces of the program take the ref as an
argument.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxlens import compat
from jaxlens.compat.arrays import is_ref

LITERAL: Any = compat.extend("core", "Literal")


def is_of(value: Any, kind: Any) -> bool:
    """Whether a value, or an abstract value, has elements of a kind, as `jnp.issubdtype` has it.

    It may be a number of Python's. A ref and a token are of no kind.
    """
    dtype = getattr(value, "dtype", type(value))
    return not is_ref(value) and bool(jnp.issubdtype(dtype, kind))


def is_inexact(value: Any) -> bool:
    """Whether a value, or an abstract value, has floating-point or complex elements."""
    return is_of(value, jnp.inexact)


def makes_ref(eqn: Any) -> bool:
    """Whether an equation has a ref as result."""
    return any(is_ref(var.aval) for var in eqn.outvars)


def bind(eqn: Any, operands: Sequence[Any], **changed: Any) -> list[Any]:
    """Executes an equation by itself; one on refs so that it needs no `jit` around it."""
    name = eqn.primitive.name
    if name == "new_ref":
        return [jax.new_ref(jnp.asarray(operands[0]))]
    if name == "empty_ref":  # what it holds before it is written is undefined
        aval = eqn.params["ty"]
        return [jax.new_ref(jnp.zeros(aval.shape, aval.dtype))]
    if name == "freeze":
        return [operands[0][...]]
    if name == "free_ref":
        return []
    params = eqn.primitive.get_bind_params({**eqn.params, **changed})

    def call(*operands: Any) -> Any:
        with eqn.ctx.manager:
            return eqn.primitive.bind(*operands, **params)

    try:
        results = call(*operands)
    except NotImplementedError:  # it has no evaluation of its own, and can be compiled alone
        results = jax.jit(call)(*operands)
    return list(results) if eqn.primitive.multiple_results else [results]
