"""Lines of a listing that are made when somebody scrolls to them.

A listing says how long it is at once; most of a large program is never looked at.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import overload

from jaxlens.render.document import Line

_FEW = 4_000  # lines that are kept once made


class LateLines(Sequence[Line]):
    """Lines whose number is known before they are.

    Args:
        count: How many there are.
        make: Makes them one by one. Called when the first is looked at; of many lines, those
            that are gone through in order are not kept, and no more are made.
    """

    def __init__(self, count: int, make: Callable[[], Iterable[Line]]) -> None:
        self._count = count
        self._make = make

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
