"""Lines of the user's source that are in a `for`, a `while` or a comprehension."""

import ast
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from jaxlens.ir.columns import Place
from jaxlens.ir.facts import Source
from jaxlens.ir.graph import Span
from jaxlens.lenses.lines import shared_frames, spot

_STATEMENTS = ast.For | ast.AsyncFor | ast.While
_LOOPS = _STATEMENTS | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def looped(sources: Mapping[str, Source]) -> Callable[[Span], bool]:
    """Returns a function that says whether a frame's line is in a Python loop.

    Text that Python cannot parse, such as a cell with magics, has no loops.

    Args:
        sources: Sources by `Span.key`.
    """

    @cache
    def lines(key: str) -> set[int]:
        source = sources.get(key)
        return _lines(source.text) if source and not source.library else set()

    return lambda span: span.line in lines(span.key)


def _lines(text: str) -> set[int]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's text, such as an invalid escape
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, _LOOPS):
            for part in node.body if isinstance(node, _STATEMENTS) else [node]:
                lines.update(range(part.lineno, (part.end_lineno or part.lineno) + 1))
    return lines


def loop_lines(places: Sequence[Place], looped: Callable[[Span], bool]) -> str:
    """Returns the line or lines of an unrolled loop; a library's if no frame is the user's.

    The call stacks share their outermost frames. If the frames right below these are in one
    function and in a Python loop, the result is their range of lines; else the innermost shared
    line in a Python loop; else that range, or the innermost shared line.
    """
    stacks = [place.spans[::-1] for place in places if place.spans]
    own = [tuple(span for span in stack if not span.library) for stack in stacks]
    stacks = [stack for stack in own if stack] or stacks
    if not stacks:
        return ""
    common = shared_frames([list(map(spot, stack)) for stack in stacks])
    beyond = [stack[common] for stack in stacks if len(stack) > common]
    if len({(span.key or span.file, span.function) for span in beyond}) != 1:
        beyond = []
    if not (beyond and all(map(looped, beyond))):
        for span in reversed(stacks[0][:common]):
            if looped(span):
                return str(span)
    if beyond:
        first, last = min(s.line for s in beyond), max(s.line for s in beyond)
        return f"{beyond[0].file}:{first}" + (f"-{last}" if last > first else "")
    return str(stacks[0][common - 1]) if common else ""
