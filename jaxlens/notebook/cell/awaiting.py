"""Input transformer for cells that await under a magic, while the kernel's event loop runs.

IPython rewrites a cell magic to the call `get_ipython().run_cell_magic(...)` and does not await
its result. Where the cell without the magic would be awaited, the transformer puts `await` before
that call, and the magic returns a coroutine.
"""

import ast
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

_AWAITS = re.compile(r"\b(?:await|async)\b")


def transformer(shell: Any, names: Sequence[str]) -> Callable[[list[str]], list[str]]:
    """Returns an input transformer that awaits these cell magics where their cell awaits."""
    call = re.compile(rf"get_ipython\(\)\.run_cell_magic\('(?:{'|'.join(names)})', ")

    def transform(lines: list[str]) -> list[str]:
        text = "".join(lines)
        if not shell.autoawait or not call.match(text) or not _AWAITS.search(text):
            return lines
        try:
            (statement,) = ast.parse(text).body
            cell = ast.literal_eval(statement.value.args[2])  # type: ignore[attr-defined]
            code = compile(
                shell.transform_cell(cell), "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            )
        except (SyntaxError, ValueError, AttributeError, IndexError):
            return lines  # the magic reports the error
        if not code.co_flags & inspect.CO_COROUTINE:
            return lines
        return [f"await {lines[0]}", *lines[1:]]

    return transform
