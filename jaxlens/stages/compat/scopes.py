"""Name stacks and MLIR locations, which carry the stamps through lowering."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from jaxlens.stages.compat.extend import extend, mlir_bindings


class _End(NamedTuple):
    """An element of a name stack that is printed last, however the stack is extended.

    A plain scope would change the text of transforms: `jvp(while)/body` would become
    `jvp(stamp)/while/body`, from which the original cannot be recovered.
    """

    name: str

    def wrap(self, parts: list[str]) -> None:
        """Inserts the name into the parts of the stack's text, which are in reverse order."""
        ends = next((i for i, part in enumerate(parts) if not part.startswith("_jl")), len(parts))
        parts.insert(ends, self.name)


def named_last() -> Callable[[Any, str], Any] | None:
    """Returns a function that appends a word to the name stack of an equation's source info.

    Gone: None; equations are not stamped.
    """
    new_source_info = extend("source_info_util", "new_source_info")
    new_name_stack = extend("source_info_util", "new_name_stack")

    def named(source: Any, word: str) -> Any:
        stack = source.name_stack
        return type(source)(source.traceback, type(stack)((*stack.stack, _End(word))))

    try:
        plain = new_source_info()
        outer = new_name_stack("f").transform("jvp")
        outer = named(plain.replace(name_stack=outer), "_jle1_").name_stack
        inner = new_name_stack("g")
        inner = named(plain.replace(name_stack=inner), "_jle2_").name_stack
        works = str(outer + inner) == "f/jvp(g)/_jle1_/_jle2_" and str(outer) == "f/jvp(_jle1_)"
    except (AttributeError, TypeError):
        return None
    return named if works else None


def scope_names(source: Any) -> Iterable[Any]:
    """Returns the parts of an equation's name stack, each hashable and with a `name`.

    Gone: never called, since `named_last` tests the same attribute first.
    """
    parts: Iterable[Any] = source.name_stack.stack
    return parts


def has_location_parts() -> bool:
    """Whether MLIR's bindings can read the parts of a location and set that of an op.

    Gone: nothing is stamped.
    """
    ir = mlir_bindings()
    return all(hasattr(ir, name) for name in ("NameLoc", "FusedLoc", "CallSiteLoc"))
