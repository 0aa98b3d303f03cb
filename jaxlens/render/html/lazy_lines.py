"""Lines of a listing that are made on first use: most of a large program is never looked at.

A line has two forms. A `Line` is made of pieces, by which glossary, comparisons and diffs tell
names from other words, and one attribute from the next. A `Row` is what travels to scripts: one
string with a control character before each run of a kind.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import overload

from jaxlens.render.control_chars import visible
from jaxlens.render.document import Line, Listing
from jaxlens.render.html.marks import begins_with_id, marked

FIRST_WORD = 1

Row = tuple[str, int | str, str]
"""A line for scripts: its text (`marks.marked`), its node, and its owner ("" for none).

The node is 0 for none and `FIRST_WORD` where it is the row's first word after ROOT; -n is that of
a line that folds n others.
"""

_FEW = 4_000  # lines that are kept when iterated


class LazyLines(Sequence[Line]):
    """Lines of a known number, all made when one is indexed; iterating many keeps none.

    Args:
        count: Number of lines.
        make: Makes the lines of a listing in order.
        start: Index of the first of these lines among those that `make` gives.
    """

    def __init__(self, count: int, make: Callable[[], Iterable[Line]], start: int = 0) -> None:
        self._count = count
        self._make = make
        self._start, self._end = start, start + count

    @cached_property
    def _lines(self) -> tuple[Line, ...]:
        return tuple(islice(self._make(), self._start, self._end))

    def __iter__(self) -> Iterator[Line]:
        if self._count <= _FEW or "_lines" in vars(self):
            return iter(self._lines)
        return islice(iter(self._make()), self._start, self._end)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> Line: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Line, ...]: ...
    def __getitem__(self, place: int | slice) -> Line | tuple[Line, ...]:
        return self._lines[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(self._count)


def head_first(lines: Iterable[Line], head: int) -> Iterator[Line]:
    """Yields `head` lines that no other folds, then those that they fold, then the rest.

    A page without scripts has the first, so that it shows the program and not its plumbing.
    """
    every, folded = iter(lines), list[Line]()
    for line in islice(every, head):
        yield line
        folded += islice(every, line.folds)
    yield from folded
    yield from every


def listed(
    stage: str, total: int, head: int, lines: Callable[[], Iterable[Line]], note: str = ""
) -> Listing:
    """Returns the listing of a program, whose lines beyond the first are made on first use.

    Args:
        stage: The stage whose ids the lines carry.
        total: Number of lines.
        head: Number of lines in the page, which no other folds.
        lines: Makes the lines in order.
        note: See `Listing`.
    """
    more = LazyLines(total - head, lambda: head_first(lines(), head), head)
    first = tuple(islice(head_first(lines(), head), head))
    return Listing(stage, first, note, more or ())


def row_of(line: Line) -> Row:
    """The row of a line."""
    if line.folds:
        return marked(line), -line.folds, line.line
    named = line.id and (FIRST_WORD if begins_with_id(line) else visible(line.id))
    return marked(line), named or 0, line.line
