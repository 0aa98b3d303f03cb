"""A call's arguments, kept for a later run without keeping large arrays alive.

A capture may be kept as long as the kernel runs, and must not keep the user's arrays alive.
"""

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jaxlens.errors import UnavailableError

# Bytes up to which an array is simply kept.
SMALL = 2**20


@dataclass(frozen=True, slots=True)
class WeakArguments:
    """Arguments of a call.

    Attributes:
        structure: Their pytree structure.
        leaves: A function per leaf, which returns the leaf, or None if it was deleted.
    """

    structure: Any
    leaves: tuple[Callable[[], Any], ...]

    def get(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments.

        Raises:
            UnavailableError: An array was deleted.
        """
        values = [leaf() for leaf in self.leaves]
        if any(value is None for value in values):
            raise UnavailableError(
                "the arrays of this call are gone: nothing else kept them; "
                "give them names and look at the call again"
            )
        args, kwargs = jax.tree_util.tree_unflatten(self.structure, values)
        return args, kwargs


def weakly_held(args: Sequence[Any], kwargs: Mapping[str, Any]) -> WeakArguments:
    """Keeps arguments, large arrays by weak references."""
    leaves, structure = jax.tree_util.tree_flatten((tuple(args), dict(kwargs)))
    return WeakArguments(structure, tuple(_keeper(leaf) for leaf in leaves))


def _keeper(leaf: Any) -> Callable[[], Any]:
    if isinstance(leaf, jax.Array | np.ndarray) and leaf.nbytes > SMALL:
        return weakref.ref(leaf)
    return lambda: leaf
