"""A call of what `equinox.filter_jit` made, under the user's names.

Equinox jits a function of its own that takes the arrays apart from everything else:
`fun_wrapped({}, {"first": ..., "fun": ..., "rest": ...}, static)`. Here both are put together
again. Nothing of Equinox is imported or called but the unflattening of its modules.

Tried with Equinox 0.13. Where it keeps them otherwise, its own names are shown.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from jaxlens.stages.arguments.inputs import keyword_name, root_names, signature_of

_CODE = "_filter_jit_cache.<locals>.fun_wrapped"
_PARTS = ("fun", "first", "rest")


@dataclass(frozen=True, slots=True)
class Taken:
    """A call as the user wrote it.

    Attributes:
        function: The user's function, or model.
        args: Positional arguments; each array is an `Array`.
        kwargs: Keyword arguments.
        owner: The model, where that is what is called; None for a function.
    """

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    owner: Any = None

    @property
    def roots(self) -> dict[str, Any]:
        """The arguments by name, the model that is called first."""
        signature = signature_of(self.function)
        positional = zip(root_names(len(self.args), signature), self.args, strict=True)
        named = {keyword_name(name, signature): value for name, value in self.kwargs.items()}
        model = {} if self.owner is None else {"self": self.owner}
        return {**model, **dict(positional), **named}


@dataclass(frozen=True, slots=True)
class Array:
    """Stands for an array: its position among the leaves that JAX sees."""

    position: int


def is_equinox(fun: Any) -> bool:
    """Whether a jitted function's Python function is Equinox's own."""
    code = getattr(fun, "__code__", None)
    return getattr(code, "co_qualname", "") == _CODE


def user_function(fun: Any, statics: Sequence[Any]) -> Any:
    """The user's function inside Equinox's, or None where `fun` is not Equinox's.

    Args:
        fun: The Python function of a jitted one.
        statics: The static values of its call.
    """
    try:
        if not is_equinox(fun):
            return None
        leaves, tree = statics[0][0]
        return tree.unflatten(leaves)
    except (IndexError, KeyError, TypeError, ValueError):
        return None


def taken(fun: Any, trees: Sequence[Any], statics: Sequence[Any]) -> Taken | None:
    """Puts a call together again; None where `fun` is not Equinox's.

    Args:
        fun: The Python function of a jitted one.
        trees: The containers of its two dynamic arguments.
        statics: Its static values.
    """
    try:
        if not is_equinox(fun):
            return None
        arrays: dict[str, Any] = {}
        begin = 0
        for tree in trees[:2]:
            count = tree.num_leaves
            arrays |= tree.unflatten(map(Array, range(begin, begin + count)))
            begin += count
        whole = [
            _combined(arrays[part], fixed) for part, fixed in zip(_PARTS, statics[0], strict=True)
        ]
        function, first, (rest, kwargs) = whole
        is_model = not jax.tree_util.all_leaves([function])
        args = (first, *rest)[:-1]  # a None of its own ends them
        return Taken(function, args, kwargs, function if is_model else None)
    except (IndexError, KeyError, TypeError, ValueError):
        return None


def _combined(arrays: Sequence[Any], fixed: tuple[Sequence[Any], Any]) -> Any:
    leaves, tree = fixed
    return tree.unflatten(a if a is not None else b for a, b in zip(arrays, leaves, strict=True))


@dataclass(frozen=True, slots=True)
class Named:
    """The parts of a call by name.

    Attributes:
        inputs: Text of each array by path, in JAX's order.
        statics: Every other leaf by path.
        structures: Pytree structure by argument.
    """

    inputs: Mapping[str, str]
    statics: Mapping[str, Any]
    structures: Mapping[str, Any]


def named(call: Taken, texts: Sequence[str]) -> Named:
    """Names the parts of a call.

    Args:
        call: The call.
        texts: What each array is, in JAX's order.
    """
    inputs: dict[int, str] = {}
    statics: dict[str, Any] = {}
    structures: dict[str, Any] = {}
    for name, value in call.roots.items():
        structures[name] = jax.tree_util.tree_structure(value)
        for path, leaf in jax.tree_util.tree_flatten_with_path(value)[0]:
            written = name + jax.tree_util.keystr(path)
            if isinstance(leaf, Array):
                inputs[leaf.position] = written
            else:
                statics[written] = leaf
    return Named({inputs[i]: texts[i] for i in sorted(inputs)}, statics, structures)


def filled(
    call: Taken, arrays: Sequence[Any]
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """The function and its arguments with something in the place of each array."""

    def put(value: Any) -> Any:
        return jax.tree_util.tree_map(
            lambda leaf: arrays[leaf.position] if isinstance(leaf, Array) else leaf, value
        )

    return put(call.function), tuple(put(arg) for arg in call.args), put(call.kwargs)
