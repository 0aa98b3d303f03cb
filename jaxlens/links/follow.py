"""Follows the instructions of one HLO module into a later one of the same compile.

By identity, not by text: stamps that are known already, then values (see `ir.numbering`),
names, and source positions. See `relation.py` for what a link is.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from jaxlens.ir.graph import Module, Node, Region
from jaxlens.ir.numbering import Numbers, Occurrence, number, plain
from jaxlens.links.relation import Link, Relation


def relate(before: Module, after: Module, known: Iterable[Link] = ()) -> Relation:
    """Follows the instructions of one HLO module into a later one of the same compile.

    Values decide first, since a fusion renames what it swallows; then names; then operation and
    source position where these are unique on both sides. Time is linear in the modules' size.

    Args:
        before: The earlier program.
        after: The later one.
        known: Links that are certain already (stamps).
    """
    numbers = Numbers()
    return follow(Program(before, numbers), Program(after, numbers), known)


def follow(left: "Program", right: "Program", known: Iterable[Link] = ()) -> Relation:
    """`relate` for programs that are compared with several others; they share their numbers."""
    links = dict.fromkeys(known)
    same = [(left.module.entry, right.module.entry)]
    same += [(name, name) for name in left.bodies if name in right.bodies]
    links.update(dict.fromkeys(_by_value(left, right, same)))
    links.update(dict.fromkeys(_by_loops(left, right, links)))
    for rest in (_by_name, _by_place):
        tails, heads = {link.tail for link in links}, {link.head for link in links}
        found = rest(
            [(node, left) for id, node in left.nodes.items() if id not in tails],
            [(node, right) for id, node in right.nodes.items() if id not in heads],
        )
        links.update(dict.fromkeys(found))
    return Relation(links)


class Program:
    """A module with its nodes by id and by value, each worked out once.

    Attributes:
        module: The module.
        bodies: For each region that stands for itself, its instructions by value.
        nodes: Every instruction by id.
        applied: Instructions of reducers, comparators and the like.
        loops: Loops and branches.
    """

    def __init__(self, module: Module, numbers: Numbers) -> None:
        self.module = module
        self.nodes = {node.id: node for node in module.nodes()}
        self.applied = frozenset(_applied(module))
        self.loops = [n for n in self.nodes.values() if n.opcode in ("while", "conditional")]
        self.bodies = {
            name: _classes(found, self.nodes)
            for name, found in number(module, numbers).bodies.items()
        }


_CONTROL = frozenset({"fusion", "call", "while", "conditional", "async-start", "async-done"})


def _applied(module: Module) -> Iterator[str]:
    """Instructions of computations that an instruction applies to elements: reducers and such."""
    names = {n for node in module.nodes() if node.opcode not in _CONTROL for n in node.regions}
    for name in names & module.regions.keys():
        for node in module.regions[name].nodes:
            yield node.id


def _by_loops(left: Program, right: Program, links: Collection[Link]) -> Iterator[Link]:
    """Pairs loops and branches that changed, by name or place, and what their bodies compute alike.

    A loop that a pass gave more state is another value, though most of its body is the same.
    """
    tails, heads = {link.tail for link in links}, {link.head for link in links}
    ours = [(node, left) for node in left.loops if node.id not in tails]
    theirs = [(node, right) for node in right.loops if node.id not in heads]
    pairs = {link.tail: link for rest in (_by_place, _by_name) for link in rest(ours, theirs)}
    bodies = [
        body
        for link in pairs.values()
        for body in zip(left.nodes[link.tail].regions, right.nodes[link.head].regions, strict=False)
    ]
    yield from pairs.values()
    yield from (
        link
        for link in _by_value(left, right, bodies)
        if link.tail not in tails and link.head not in heads
    )


def _by_value(left: Program, right: Program, pairs: Iterable[tuple[str, str]]) -> Iterator[Link]:
    """Pairs equal values within each pair of bodies, and goes on to the bodies that they call."""
    pending = list(pairs)
    seen = set()
    while pending:
        pair = pending.pop()
        if pair in seen or pair[0] not in left.bodies or pair[1] not in right.bodies:
            continue
        seen.add(pair)
        if not _kept_state(left.module.regions[pair[0]], right.module.regions[pair[1]]):
            continue
        for tail, head in _equal(left, right, *pair):
            yield Link(tail, head, "value")
            callers = left.nodes[tail], right.nodes[head]
            if callers[0].opcode == callers[1].opcode:
                pending += zip(callers[0].regions, callers[1].regions, strict=False)


def _kept_state(before: Region, after: Region) -> bool:
    """Whether the parts of a loop's state are where they were; passes put new ones at the end."""
    pairs = zip(before.parameters, after.parameters, strict=False)
    return all(
        list(map(plain, old.type.parts)) == list(map(plain, new.type.parts[: len(old.type.parts)]))
        for old, new in pairs
    )


def _equal(left: Program, right: Program, tail: str, head: str) -> Iterator[tuple[str, str]]:
    """Pairs instructions of two bodies that have one value."""
    heads = right.bodies[head]
    for value, ours in left.bodies[tail].items():
        theirs = heads.get(value)
        if theirs:
            yield from _paired(ours, theirs)


def _classes(found: Iterable[Occurrence], nodes: Mapping[str, Node]) -> dict[int, list[Node]]:
    """The instructions of each value, each once."""
    classes: defaultdict[int, dict[str, Node]] = defaultdict(dict)
    for occurrence in found:
        classes[occurrence.number][occurrence.id] = nodes[occurrence.id]
    return {value: list(members.values()) for value, members in classes.items()}


def _paired(ours: list[Node], theirs: list[Node]) -> Iterator[tuple[str, str]]:
    """Links the instructions of one value: like with like, and nobody is left alone.

    A fusion has the value of its root; so has a copy that of its operand. Such a bearer is
    linked to a bearer, and the instruction that computes the value to one that computes it.
    """
    if len(ours) == len(theirs) == 1:
        if _family(ours[0]) == _family(theirs[0]):
            yield ours[0].id, theirs[0].id
        return
    by_id = {node.id: node for node in ours}
    by_place = {_place(node): node for node in reversed(ours)}
    by_opcode = {_family(node): node for node in reversed(ours)}
    met: set[str] = set()
    heads: dict[str, str] = {}
    for head in theirs:
        tail = by_id.get(head.id)
        if tail is None or tail.opcode != head.opcode:
            tail = by_place.get(_place(head)) or by_opcode.get(_family(head))
        heads.setdefault(_family(head), head.id)
        if tail is not None:
            met.add(tail.id)
            yield tail.id, head.id
    for tail in ours:
        head_id = heads.get(_family(tail))
        if tail.id not in met and head_id is not None:
            yield tail.id, head_id


def _family(node: Node) -> str:
    """The opcode; reshape and bitcast are one operation before and after layouts are chosen."""
    return "reshape" if node.opcode == "bitcast" else node.opcode


def _family_and_type(node: Node) -> str:
    return f"{_family(node)} {plain(node.type)}"


def _place(node: Node) -> tuple[object, ...]:
    return _family(node), node.scope, node.spans


Rest = list[tuple[Node, Program]]


def _by_name(left: Rest, right: Rest) -> Iterator[Link]:
    heads = {node.id: node for node, _ in right}
    for tail, _ in left:
        head = heads.get(tail.id)
        if head and head.opcode == tail.opcode and plain(head.type) == plain(tail.type):
            yield Link(tail.id, head.id, "named")


def _by_place(left: Rest, right: Rest) -> Iterator[Link]:
    """Same scope and frames, and the same opcode, both or type, and nothing else like it."""
    done: set[str] = set()
    for key in (_family, _family_and_type, lambda node: plain(node.type)):
        tails, heads = _unique(left, key), _unique(right, key)
        for place, tail in tails.items():
            head = heads.get(place)
            if head and tail not in done and head not in done:
                done |= {tail, head}
                yield Link(tail, head, "span")


def _unique(nodes: Rest, key: Callable[[Node], str]) -> dict[object, str]:
    """Nodes with a position in the user's program that no other node of the list shares."""
    groups: defaultdict[object, list[str]] = defaultdict(list)
    for node, program in nodes:
        if node.scope or node.spans:
            applied = node.id in program.applied
            groups[key(node), node.scope, node.spans, applied].append(node.id)
    return {place: group[0] for place, group in groups.items() if len(group) == 1}
