"""Lines of the user's source that are in a `for`, a `while`, a comprehension, `map` or `reduce`."""

import ast
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from jaxlens.ir.columns import Place
from jaxlens.ir.facts import Source
from jaxlens.ir.graph import Span
from jaxlens.ir.jaxpr.python_text import parsed
from jaxlens.program.lines import shared_frames, spot

_STATEMENTS = ast.For | ast.AsyncFor | ast.While
_LOOPS = _STATEMENTS | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.Call
_CALLED = ("map", "reduce", "accumulate")  # functions that call another in a loop


def looped(sources: Mapping[str, Source]) -> Callable[[Span], int | None]:
    """Returns a function that says in how many Python loops of the user's a frame's line is.

    It returns None for text that is not there or that Python cannot parse, such as a cell with
    magics.

    Args:
        sources: Sources by `Span.key`.
    """

    @cache
    def lines(key: str) -> Counter[int] | None:
        source = sources.get(key)
        text = source.text if source is not None and not source.library else ""
        return loops_by_line(text) if text else None

    def loops(span: Span) -> int | None:
        known = lines(span.key)
        return known[span.line] if known is not None else None

    return loops


def loops_by_line(text: str) -> Counter[int] | None:
    """Returns in how many loops each line of a text is; None if Python cannot parse it."""
    tree = parsed(text)
    if tree is None:
        return None
    lines: Counter[int] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, _LOOPS) and (type(node) is not ast.Call or _name(node) in _CALLED):
            for part in node.body if isinstance(node, _STATEMENTS) else [node]:
                lines.update(range(part.lineno, (part.end_lineno or part.lineno) + 1))
    return lines


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def is_users_loop(places: Sequence[Place], looped: Callable[[Span], int | None]) -> bool:
    """Whether the user's source has an unrolled loop, and not a function of JAX's that it calls.

    A loop whose equations come from one expression is JAX's own, such as the squarings of `2 ** n`,
    unless that expression is in a Python loop. So is a loop of which no frame is left, as JAX's are
    left out.

    Args:
        places: The places of the loop's equations.
        looped: In how many Python loops a frame's line is; None where that is not known.
    """
    stacks = {tuple(span for span in place.spans if not span.library) for place in places}
    stack = stacks.pop()
    loops = [looped(span) for span in stack]
    if stacks or None in loops:
        return True
    return any(loops) if stack else any(place.spans for place in places)


def loop_lines(places: Sequence[Place], looped: Callable[[Span], int | None]) -> str:
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
