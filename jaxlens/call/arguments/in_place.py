"""Makes arrays that a function assigns inside its arguments results of the program.

`opt.update(model, grads)` assigns new arrays inside its arguments. `jax.jit` traces copies of the
arguments, so the assignments are lost and the code that computes them is dead. For a function that
is not jitted they become results, as in `nnx.jit`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import Signature
from typing import Any

import jax

from jaxlens.call.arguments import pytrees
from jaxlens.call.arguments.inputs import named_arguments

_SHOWN = 2  # names in a sentence


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a call, and the arrays that it assigned inside its arguments.

    Attributes:
        result: What the function returned.
        arrays: The assigned arrays by path.
    """

    result: Any
    arrays: dict[str, Any]

    def names(self) -> Iterator[str]:
        """Yields the names of the leaves, in the order of flattening."""
        for path, _ in jax.tree_util.tree_flatten_with_path(self.result)[0]:
            yield "result" + jax.tree_util.keystr(path)
        yield from (f"new {name}" for name in sorted(self.arrays))

    def deviation(self, name: str) -> str:
        """Returns the sentence on what `jax.jit` would do with these assignments.

        Args:
            name: The function's name.
        """
        first = ", ".join(list(self.arrays)[:_SHOWN])
        more = len(self.arrays) - _SHOWN
        written = first + (f" and {more} more" if more > 0 else "")
        return (
            f"{name} writes into its arguments ({written}); under jax.jit that is lost, and what "
            "computes it is dead. Here it is a result too, as under nnx.jit, and counts in every "
            "figure"
        )


jax.tree_util.register_pytree_node(
    Written,
    lambda written: ((written.result, written.arrays), None),
    lambda _, children: Written(*children),
)


def returning(function: Callable[..., Any], signature: Signature | None) -> Callable[..., Any]:
    """Wraps a function so that it returns `Written` if it assigns arrays inside its arguments.

    Args:
        function: A function that is traced: its arguments are copies of the user's.
        signature: Its signature, for the names of the arguments.
    """

    def with_written(*args: Any, **kwargs: Any) -> Any:
        arguments = named_arguments(args, kwargs, signature)
        before, again = _arrays(arguments), _arrays(arguments)
        # A container may create its leaves whenever it is flattened.
        created = {name for name in before if before[name] is not again.get(name)}
        result = function(*args, **kwargs)
        after = _arrays(arguments)
        new = {n: v for n, v in after.items() if n not in created and before.get(n) is not v}
        return Written(result, new) if new else result

    return with_written


def _arrays(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns every array inside the arguments by path."""
    return {
        root + path: leaf
        for root, value in arguments.items()
        for path, leaf in pytrees.leaves(value)
        if path and isinstance(leaf, jax.Array)  # what is no container cannot be written into
    }
