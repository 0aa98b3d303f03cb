"""Finds the lines of the user's source that are in a `for`, a `while` or a comprehension."""

import ast
import warnings
from collections.abc import Callable, Mapping

from jaxlens.ir.facts import Source
from jaxlens.ir.graph import Span

_LOOPS = (
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


def looped(sources: Mapping[str, Source]) -> Callable[[Span], bool]:
    """Returns a function that says whether a frame's line is in a Python loop.

    Text that Python cannot parse, such as a cell with magics, has no loops.

    Args:
        sources: Sources by `Span.key`.
    """
    known: dict[str, set[int]] = {}

    def tells(span: Span) -> bool:
        if span.key not in known:
            source = sources.get(span.key)
            known[span.key] = _lines(source.text) if source and not source.library else set()
        return span.line in known[span.key]

    return tells


def _lines(text: str) -> set[int]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's text, such as an invalid escape
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, _LOOPS):
            parts = node.body if isinstance(node, ast.For | ast.AsyncFor | ast.While) else [node]
            for part in parts:
                found.update(range(part.lineno, (part.end_lineno or part.lineno) + 1))
    return found
