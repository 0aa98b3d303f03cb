"""Lines of a listing that are made when somebody scrolls to them.

A listing says how long it is at once; most of a large program is never looked at.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import overload

from jaxlens.render.control_chars import visible
from jaxlens.render.document import Line
from jaxlens.render.html.marks import begins_with_id, marked

FIRST_WORD = 1

Row = tuple[str, int | str, str]
"""A line written out for scripts: `html_marks.marked` text, its node and its owner ("" for none).

The node is 0 for none and `FIRST_WORD` where the row's first word after ROOT names it.
"""

_FEW = 4_000  # lines that are kept once made


class LateLines(Sequence[Line]):
    """Lines whose number is known before they are.

    Args:
        count: How many there are.
        make: Makes them one by one. Called when the first is looked at; of many lines, those
            that are gone through in order are not kept, and no more are made.
        write: Writes out the same lines, where there is a quicker way than over `Line`.
    """

    def __init__(
        self,
        count: int,
        make: Callable[[], Iterable[Line]],
        write: Callable[[], Iterable[Row]] | None = None,
    ) -> None:
        self._count = count
        self._make = make
        self._write = write

    def written(self) -> Iterator[Row]:
        """The lines written out."""
        return islice(iter(self._write()), self._count) if self._write else map(row_of, self)

    @cached_property
    def _lines(self) -> tuple[Line, ...]:
        return tuple(self._make())[: self._count]

    def __iter__(self) -> Iterator[Line]:
        if self._count <= _FEW or "_lines" in vars(self):
            return iter(self._lines)
        return islice(iter(self._make()), self._count)

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


def written(lines: Iterable[Line]) -> Iterator[Row]:
    """Lines written out for scripts."""
    return lines.written() if isinstance(lines, LateLines) else map(row_of, lines)


def row_of(line: Line) -> Row:
    """One line written out."""
    named = line.id and (FIRST_WORD if begins_with_id(line) else visible(line.id))
    return marked(line), named or 0, line.line
