"""Follows the instructions of one HLO module into a later one of the same compile.

By identity, not by text: stamps that are known already, then values (see `ir.numbering`),
names, and source positions. See `link.py` for what a link is.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from jaxlens.ir.graph import Module, Node, Region
from jaxlens.ir.hlo.value_numbering import plain
from jaxlens.links.match.link import How, Link, Relation
from jaxlens.links.match.numbered import Program, Programs

Triple = tuple[str, str, How]
"""A link before it is one: the same again costs nothing."""
Links = dict[Triple, None]


def relate(before: Module, after: Module, known: Iterable[Link] = ()) -> Relation:
    """Follows the instructions of one HLO module into a later one of the same compile.

    Values decide first, since a fusion renames what it swallows; then names; then operation and
    source position where these are unique on both sides. Time is linear in the modules' size.

    Args:
        before: The earlier program.
        after: The later one.
        known: Links that are certain already (stamps).
    """
    programs = Programs()
    return follow(programs.of(before), programs.of(after), known)


def follow(left: Program, right: Program, known: Iterable[Link] = ()) -> Relation:
    """`relate` for programs that are compared with several others; both of one `Programs`."""
    links: Links = dict.fromkeys((link.tail, link.head, link.how) for link in known)
    same = [(left.module.entry, right.module.entry)]
    same += [(name, name) for name in left.bodies if name in right.bodies]
    _by_value(left, right, same, links)
    _by_loops(left, right, links)
    for rest in (_by_name, _by_place):
        tails, heads = _ends(links)
        ours = [node for id, node in left.nodes.items() if id not in tails]
        theirs = [node for id, node in right.nodes.items() if id not in heads]
        rest(left, right, ours, theirs, links)
    return Relation(Link(*link) for link in links)


def _ends(links: Links) -> tuple[set[str], set[str]]:
    return {tail for tail, _, _ in links}, {head for _, head, _ in links}


def _by_loops(left: Program, right: Program, links: Links) -> None:
    """Pairs loops and branches that changed, by name or place, and what their bodies compute alike.

    A loop that a pass gave more state is another value, though most of its body is the same.
    """
    tails, heads = _ends(links)
    ours = [node for node in left.loops if node.id not in tails]
    theirs = [node for node in right.loops if node.id not in heads]
    if not (ours and theirs):
        return
    pairs: dict[str, Triple] = {}
    for rest in (_by_place, _by_name):
        found: Links = {}
        rest(left, right, ours, theirs, found)
        pairs.update((link[0], link) for link in found)
    bodies = [
        body
        for tail, head, _ in pairs.values()
        for body in zip(left.nodes[tail].regions, right.nodes[head].regions, strict=False)
    ]
    links.update(dict.fromkeys(pairs.values()))
    inside: Links = {}
    _by_value(left, right, bodies, inside)
    links.update((k, None) for k in inside if k[0] not in tails and k[1] not in heads)


def _by_value(
    left: Program, right: Program, pairs: Iterable[tuple[str, str]], links: Links
) -> None:
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
            links[tail.id, head.id, "value"] = None
            if tail.regions and tail.opcode == head.opcode:
                pending += zip(tail.regions, head.regions, strict=False)


def _kept_state(before: Region, after: Region) -> bool:
    """Whether the parts of a loop's state are where they were; passes put new ones at the end."""
    pairs = zip(before.parameters, after.parameters, strict=False)
    return all(
        list(map(plain, old.type.parts)) == list(map(plain, new.type.parts[: len(old.type.parts)]))
        for old, new in pairs
    )


def _equal(left: Program, right: Program, tail: str, head: str) -> Iterator[tuple[Node, Node]]:
    """Pairs instructions of two bodies that have one value."""
    heads = right.bodies[head]
    for value, ours in left.bodies[tail].items():
        theirs = heads.get(value)
        if theirs is None:
            continue
        if len(ours) == len(theirs) == 1:
            if ours[0].opcode == theirs[0].opcode or _family(ours[0]) == _family(theirs[0]):
                yield ours[0], theirs[0]
        else:
            yield from _paired(left, right, ours, theirs)


def _paired(
    left: Program, right: Program, ours: Sequence[Node], theirs: Sequence[Node]
) -> Iterator[tuple[Node, Node]]:
    """Links the instructions of one value: like with like, and nobody is left alone.

    A fusion has the value of its root; so has a copy that of its operand. Such a bearer is
    linked to a bearer, and the instruction that computes the value to one that computes it.
    """
    by_id = {node.id: node for node in ours}
    by_place = {(_family(node), left.spot(node)): node for node in reversed(ours)}
    by_opcode = {_family(node): node for node in reversed(ours)}
    met: set[str] = set()
    heads: dict[str, Node] = {}
    for head in theirs:
        family = _family(head)
        tail = by_id.get(head.id)
        if tail is None or tail.opcode != head.opcode:
            tail = by_place.get((family, right.spot(head))) or by_opcode.get(family)
        heads.setdefault(family, head)
        if tail is not None:
            met.add(tail.id)
            yield tail, head
    for tail in ours:
        found = heads.get(_family(tail))
        if tail.id not in met and found is not None:
            yield tail, found


def _family(node: Node) -> str:
    """The opcode; reshape and bitcast are one operation before and after layouts are chosen."""
    return "reshape" if node.opcode == "bitcast" else node.opcode


def _family_and_type(node: Node) -> str:
    return f"{_family(node)} {plain(node.type)}"


def _by_name(
    left: Program, right: Program, ours: Sequence[Node], theirs: Sequence[Node], links: Links
) -> None:
    heads = {node.id: node for node in theirs}
    for tail in ours:
        head = heads.get(tail.id)
        if head and head.opcode == tail.opcode and plain(head.type) == plain(tail.type):
            links[tail.id, head.id, "named"] = None


def _by_place(
    left: Program, right: Program, ours: Sequence[Node], theirs: Sequence[Node], links: Links
) -> None:
    """Same scope and frames, and the same opcode, both or type, and nothing else like it."""
    tails, heads = _placed(left, ours), _placed(right, theirs)
    done: set[str] = set()
    for key in (_family, _family_and_type, lambda node: plain(node.type)):
        for place in [place for place in tails if place in heads]:
            if all(n.id in done for n in tails[place]) or all(n.id in done for n in heads[place]):
                del heads[place]  # nothing of it is left to be linked
                continue
            there = _unique(heads[place], key)
            for name, tail in _unique(tails[place], key).items():
                head = there.get(name)
                if head and tail not in done and head not in done:
                    done |= {tail, head}
                    links[tail, head, "span"] = None


Place = tuple[int, bool]
"""A position in the user's program, and whether it is an applied computation that stands there."""


def _placed(program: Program, nodes: Iterable[Node]) -> dict[Place, list[Node]]:
    """Nodes by their position in the user's program; those without one are left out."""
    groups: defaultdict[Place, list[Node]] = defaultdict(list)
    for node in nodes:
        spot = program.spot(node)
        if spot:
            groups[spot, node.id in program.applied].append(node)
    return groups


def _unique(nodes: Iterable[Node], key: Callable[[Node], str]) -> dict[str, str]:
    """Nodes of one place that share their key with no other."""
    same: dict[str, str] = {}
    several: set[str] = set()
    for node in nodes:
        name = key(node)
        if name in same:
            several.add(name)
        same[name] = node.id
    return {name: id for name, id in same.items() if name not in several}
