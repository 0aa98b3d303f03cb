"""The Python stack in which an array was made."""

from typing import Any

from jaxlens.stages.compat.import_private import when_gone


@when_gone(())
def made_in(array: Any) -> tuple[tuple[str, int], ...]:
    """Returns file name and line of each frame that made an array, innermost first.

    JAX keeps the stack with each array, so that asking for it slows no call.

    Gone: (), and the line that made an array is unknown.
    """
    stack = array.traceback
    return () if stack is None else tuple((f.file_name, f.line_num) for f in stack.frames)
