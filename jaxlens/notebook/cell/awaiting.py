"""Cells that await, under a magic in a kernel whose event loop runs.

IPython writes such a cell as a call of its own, `get_ipython().run_cell_magic(...)`, and waits for
no result of that. So what stands there is awaited, where the cell would be awaited without the
magic, and the magic gives a coroutine.
"""

import ast
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

_AWAITS = re.compile(r"\b(?:await|async)\b")


def transformer(shell: Any, names: Sequence[str]) -> Callable[[list[str]], list[str]]:
    """An input transformer that awaits the cell magics of these names where their cell awaits."""
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
            return lines  # the magic says what is wrong with it
        if not code.co_flags & inspect.CO_COROUTINE:
            return lines
        return [f"await {lines[0]}", *lines[1:]]

    return transform
