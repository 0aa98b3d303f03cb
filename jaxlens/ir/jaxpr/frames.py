"""Resolves a JAX traceback to spans with columns, each distinct traceback once.

A traceback is any object whose `raw_frames()` gives code objects and instruction offsets, innermost
first, as JAX's do. Python gives the columns of an offset (`co_positions`), so no private function
of JAX is needed. Columns count UTF-8 bytes.
"""

from collections.abc import Callable
from types import CodeType
from typing import Any

from jaxlens.ir.graph import Span
from jaxlens.ir.spans import Frame, describe, of_program, span

Position = tuple[int | None, int | None, int | None, int | None]
Resolver = Callable[[Any], tuple[Span, ...]]


def resolver() -> Resolver:
    """Makes a function from a traceback (or None) to its spans, with a cache of its own.

    The cache is keyed by the identity of code objects: keep the program with the tracebacks
    alive while the function is used.
    """
    spans_of: dict[Any, tuple[Span, ...]] = {None: ()}
    stacks: dict[tuple[int, ...], tuple[Span, ...]] = {}  # equal ones are one object
    positions: dict[int, list[Position]] = {}
    frames: dict[tuple[int, int], Span | None] = {}

    def frame(code: CodeType, offset: int) -> Span | None:
        if describe(code.co_filename).own:
            return None
        if id(code) not in positions:
            positions[id(code)] = list(code.co_positions())
        return span(_frame(code, offset, positions[id(code)]))

    def resolve(traceback: Any) -> tuple[Span, ...]:
        stack = spans_of.get(traceback)
        if stack is None:
            codes, offsets = traceback.raw_frames()
            keys = list(zip(map(id, codes), offsets, strict=True))
            for key, code in zip(keys, codes, strict=True):
                if key not in frames:
                    frames[key] = frame(code, key[1])
            own = of_program(map(frames.__getitem__, keys))
            stack = spans_of[traceback] = stacks.setdefault(tuple(map(id, own)), own)
        return stack

    return resolve


def _frame(code: CodeType, offset: int, positions: list[Position]) -> Frame:
    """A frame; offsets count bytes, and `co_positions` has an entry for two of them."""
    index = offset // 2
    line, end, column, end_column = positions[index] if 0 <= index < len(positions) else (None,) * 4
    return (
        code.co_filename,
        line or code.co_firstlineno,
        end or line or code.co_firstlineno,
        -1 if column is None else column,
        -1 if end_column is None else end_column,
        code.co_qualname,
    )
