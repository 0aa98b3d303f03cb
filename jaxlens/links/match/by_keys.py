"""Pairs the nodes of two programs by keys: each matcher of this package is a list of them.

A key says what two nodes must share; None stands for a node that cannot be paired by it. Keys are
tried in turn, the strictest first, and what one key has paired is left out of the next, so a weak
key only decides about nodes on which all stronger ones are silent. With (value, opcode):

    before                after
    a = add x, y          k = add x, y          a-k: the same value
    b = tanh a            m = tanh k: f16       b-m: another value, the same opcode
    c = neg b             n = sin m             c and n stay unpaired

A key is computed once for each node that is left: time is linear in the size of the programs.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from jaxlens.ir.graph import Node

Side = TypeVar("Side")
Key = Callable[[Side, Node], Hashable]
"""What a node is paired by; a side is where its key looks up what it knows of the program."""
Pairs = Iterator[tuple[Node, Node]]


def grouped(side: Side, nodes: Iterable[Node], key: Key[Side]) -> dict[Hashable, list[Node]]:
    """Nodes by key, in order; those without one are left out."""
    groups: defaultdict[Hashable, list[Node]] = defaultdict(list)
    for node in nodes:
        if (value := key(side, node)) is not None:
            groups[value].append(node)
    return groups


def in_order(
    sides: tuple[Side, Side],
    before: Iterable[Node],
    after: Iterable[Node],
    keys: Iterable[Key[Side]],
) -> Pairs:
    """Pairs nodes one to one: of several with one key the first with the first, and so on.

    A key is drawn when the pairs of the one before have been given, so a generator of keys may
    look at these.
    """
    before, after = list(before), list(after)
    for key in keys:
        queues = {k: iter(nodes) for k, nodes in grouped(sides[0], before, key).items()}
        rest = []
        paired = set()
        for head in after:
            tail = next(queues.get(key(sides[1], head), _NONE), None) if queues else None
            if tail is None:
                rest.append(head)
            else:
                paired.add(tail.id)
                yield tail, head
        before, after = [node for node in before if node.id not in paired], rest
        if not (before and after):
            return


_NONE: Iterator[Node] = iter(())


def unique(
    sides: tuple[Side, Side],
    before: Iterable[Node],
    after: Iterable[Node],
    place: Key[Side],
    keys: Iterable[Key[Side]],
) -> Pairs:
    """Pairs nodes of one place whose key no other node there has, be that paired or not.

    Keys are computed at places that both sides have. In programs of one compile an id means the
    same on both sides: paired on one, it is spent.
    """
    tails, heads = grouped(sides[0], before, place), grouped(sides[1], after, place)
    places = [(nodes, heads[where]) for where, nodes in tails.items() if where in heads]
    paired: set[str] = set()
    for key in keys:
        left = []  # places where a node is left
        for here, others_here in places:
            others = _alone(sides[1], others_here, key)
            for value, tail in _alone(sides[0], here, key).items():
                head = others.get(value)
                if head and tail.id not in paired and head.id not in paired:
                    paired.add(tail.id)
                    paired.add(head.id)
                    yield tail, head
            if len(here) > 1 or here[0].id not in paired:
                left.append((here, others_here))
        places = left


def _alone(side: Side, nodes: Sequence[Node], key: Key[Side]) -> dict[Hashable, Node]:
    """The nodes whose key no other has."""
    if len(nodes) == 1:
        return {key(side, nodes[0]): nodes[0]}
    return {
        value: group[0] for value, group in grouped(side, nodes, key).items() if len(group) == 1
    }


def nearest(
    sides: tuple[Side, Side],
    before: Iterable[Node],
    after: Sequence[Node],
    keys: Sequence[Key[Side]],
) -> Pairs:
    """Gives each node before the first node after that the first key finds, also repeatedly."""
    tables: list[dict[Hashable, Node]] = []  # made as far as they are needed
    for tail in before:
        for n, key in enumerate(keys):
            if n == len(tables):
                tables.append({key(sides[1], node): node for node in reversed(after)})
            if head := tables[n].get(key(sides[0], tail)):
                yield tail, head
                break
