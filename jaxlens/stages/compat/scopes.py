"""Name stacks and locations, which carry our stamps through lowering."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class _End(NamedTuple):
    """An element of a name stack that stands behind all others, however the stack is extended.

    A plain scope would change what transforms print: `jvp(while)/body` would be
    `jvp(stamp)/while/body`, and nobody could tell how it was.
    """

    name: str

    def wrap(self, parts: list[str]) -> None:
        """Adds its name to the parts of the stack's text, which are the last first."""
        ends = next((i for i, part in enumerate(parts) if not part.startswith("_jl")), len(parts))
        parts.insert(ends, self.name)


def named_last() -> Callable[[Any, str], Any] | None:
    """Makes an equation's source info whose scope ends in a word more, and is the same otherwise.

    Gone: None; equations are not stamped.
    """
    from jax.extend import source_info_util

    def named(source: Any, word: str) -> Any:
        stack = source.name_stack
        return type(source)(source.traceback, type(stack)((*stack.stack, _End(word))))

    try:
        plain = source_info_util.new_source_info()
        outer = source_info_util.new_name_stack("f").transform("jvp")
        outer = named(plain.replace(name_stack=outer), "_jle1_").name_stack
        inner = source_info_util.new_name_stack("g")
        inner = named(plain.replace(name_stack=inner), "_jle2_").name_stack
        works = str(outer + inner) == "f/jvp(g)/_jle1_/_jle2_" and str(outer) == "f/jvp(_jle1_)"
    except (AttributeError, TypeError):
        return None
    return named if works else None


def scope_names(source: Any) -> Iterable[Any]:
    """The parts of an equation's name stack, each with a `name`; they can be hashed.

    Gone: never asked, since `named_last` tries the same first.
    """
    parts: Iterable[Any] = source.name_stack.stack
    return parts


def has_location_parts() -> bool:
    """Whether MLIR's bindings can take locations apart and change an op's.

    Gone: nothing is stamped.
    """
    from jax.extend.mlir import ir

    return all(hasattr(ir, name) for name in ("NameLoc", "FusedLoc", "CallSiteLoc"))
