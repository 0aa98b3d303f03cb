"""Links between the nodes of two programs, and how each is known. `How`, best first:

- "stamped": by a stamp, which the compiler keeps in op_names (see `ir.stamps`).
- "value": both compute the same expression of the same inputs (see `ir.hlo.value_numbering`).
- "named": the compiler kept the name, the opcode and the type.
- "span": the same operation on the same source position, and no other on either side has both.
- "inferred": from the links of operands, users or callers.
"""

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import Literal, NamedTuple

How = Literal["stamped", "value", "named", "span", "inferred"]
HOWS: tuple[How, ...] = ("stamped", "value", "named", "span", "inferred")


class Link(NamedTuple):
    """`tail` became (a part of) `head`."""

    tail: str
    head: str
    how: How


class Relation:
    """The links between two modules, by either end."""

    def __init__(self, links: Iterable[Link] = ()) -> None:
        self.links = tuple(links)

    @cached_property
    def _forward(self) -> dict[str, tuple[Link, ...]]:
        return _grouped(self.links, "tail")

    @cached_property
    def _back(self) -> dict[str, tuple[Link, ...]]:
        return _grouped(self.links, "head")

    def forward(self, id: str) -> tuple[str, ...]:
        """Returns what a node became."""
        return tuple(link.head for link in self._forward.get(id, ()))

    def back(self, id: str) -> tuple[str, ...]:
        """Returns what a node came from."""
        return tuple(link.tail for link in self._back.get(id, ()))

    def out(self, id: str) -> tuple[Link, ...]:
        """Returns the links from a node to what it became."""
        return self._forward.get(id, ())

    def __len__(self) -> int:
        return len(self.links)


def _grouped(links: Iterable[Link], end: Literal["tail", "head"]) -> dict[str, tuple[Link, ...]]:
    groups: defaultdict[str, list[Link]] = defaultdict(list)
    for link in links:
        groups[link.tail if end == "tail" else link.head].append(link)
    return {id: tuple(group) for id, group in groups.items()}
