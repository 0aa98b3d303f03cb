"""Pairs the nodes of two programs by keys; each matcher of this package is a list of keys.

A key computes what two nodes must have in common, or None for a node that it cannot pair. Keys are
tried in turn, the strictest first, and nodes that one key has paired are left out of the next, so a
weak key only pairs nodes that no stronger one has paired. With the keys (value, opcode):

    before                after
    a = add x, y          k = add x, y          a-k: the same value
    b = tanh a            m = tanh k: f16       b-m: another value, the same opcode
    c = neg b             n = sin m             c and n stay unpaired

A key is computed once for each node that is not paired yet, so time is linear in program size.
"""

from collections import defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence, Set
from typing import TypeVar

from jaxlens.ir.graph import Node

Side = TypeVar("Side")
Key = Callable[[Side, Node], Hashable]
"""Computes the key of a node from its side, which holds the facts about its program."""
Pairs = Iterator[tuple[Node, Node]]


def grouped(
    side: Side,
    nodes: Iterable[Node],
    key: Key[Side],
    among: Container[Hashable] | None = None,
) -> dict[Hashable, list[Node]]:
    """Returns nodes by key, in order, without those whose key is None or not `among` these."""
    groups: defaultdict[Hashable, list[Node]] = defaultdict(list)
    for node in nodes:
        value = key(side, node)
        if value is not None and (among is None or value in among):
            groups[value].append(node)
    return groups


def in_order(
    sides: tuple[Side, Side],
    before: Iterable[Node],
    after: Iterable[Node],
    keys: Iterable[Key[Side]],
) -> Pairs:
    """Pairs nodes one to one: of several with one key the first with the first, and so on.

    The next key is taken after the pairs of the last one were yielded, so a generator of keys can
    use these pairs.
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
    """Pairs nodes of equal place whose key no other node of that place has, paired or not.

    Keys are computed only for places on both sides. In programs of one compile an id names the
    same node on both sides, so an id that is paired on one side is not paired on the other.
    """
    tails = grouped(sides[0], before, place)
    heads = grouped(sides[1], after, place, among=tails)
    places = [(nodes, heads[where]) for where, nodes in tails.items() if where in heads]
    paired: set[str] = set()
    for key in keys:
        for tails_there, heads_there in places:
            tail_of = _alone(sides[0], tails_there, key)
            head_of = _alone(sides[1], heads_there, key) if tail_of else {}
            for value, tail in tail_of.items():
                head = head_of.get(value)
                if head and tail.id not in paired and head.id not in paired:
                    paired |= {tail.id, head.id}
                    yield tail, head
        places = [(t, h) for t, h in places if _has_rest(t, paired) and _has_rest(h, paired)]


def _has_rest(nodes: Sequence[Node], paired: Set[str]) -> bool:
    return not all(node.id in paired for node in nodes)


def _alone(side: Side, nodes: Sequence[Node], key: Key[Side]) -> dict[Hashable, Node]:
    """Returns the nodes whose key no other node has."""
    if len(nodes) == 1:
        return {key(side, nodes[0]): nodes[0]}
    return {value: group[0] for value, group in grouped(side, nodes, key).items() if not group[1:]}


def nearest(
    sides: tuple[Side, Side],
    before: Iterable[Node],
    after: Sequence[Node],
    keys: Sequence[Key[Side]],
) -> Pairs:
    """Pairs each node before by the first key that matches; several can have one node after."""
    tables: list[dict[Hashable, Node]] = []  # built when needed
    for tail in before:
        for n, key in enumerate(keys):
            if n == len(tables):
                tables.append({key(sides[1], node): node for node in reversed(after)})
            if head := tables[n].get(key(sides[0], tail)):
                yield tail, head
                break
