"""Follows the instructions of one HLO module into a later one of the same compile.

The keys, best first: the value that an instruction computes (see `ir.hlo.value_numbering`), its
name, its source position. Values come first because fusion renames the instructions it fuses:

    before                           after
    dot.1 = dot(x, w)                fused (p0, p1):
    add.1 = add(dot.1, b)              dot.7 = dot(p0, p1)          dot.1 -> dot.7 by value
    max.1 = maximum(add.1, 0)        call.2 = custom-call(fused)    add.1, max.1: by position, if
                                                                    exactly one node has theirs

Names and positions link instructions that a pass rewrote to another value. One value may have
several instructions on either side: CSE merged them, or two fusions compute it. Then all of them
are linked.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from jaxlens.ir.graph import Module, Node
from jaxlens.ir.hlo.instructions import EXCHANGES
from jaxlens.links.match.by_keys import Key, grouped, nearest, unique
from jaxlens.links.match.link import How, Link, Relation
from jaxlens.links.match.numbered import NumberedModule, NumberedModules


def relate(before: Module, after: Module) -> Relation:
    """Follows the instructions of one HLO module into a later one of the same compile."""
    programs = NumberedModules()
    return follow(programs.numbered(before), programs.numbered(after))


def follow(left: NumberedModule, right: NumberedModule) -> Relation:
    """Follows the instructions of one numbered module into a later one; see `relate`."""
    links = _Links()
    bodies = [(left.module.entry, right.module.entry)]
    bodies += [(name, name) for name in left.bodies if name in right.bodies]
    links.add(_by_value(left, right, bodies))
    links.add(_by_loops(left, right, links))
    links.add(_by_identity(left, right, left.nodes.values(), right.nodes.values(), _channel))
    links.add(_by_identity(left, right, *links.rest(left.nodes, right.nodes), _stamped))
    links.add(_by_keys(left, right, *links.rest(left.nodes, right.nodes, _ID), "named"))
    links.add(_by_keys(left, right, *links.rest(left.nodes, right.nodes, _STAMPS), "span"))
    links.add(_by_operand(left, right, links))
    return Relation(links.links)


class _Links:
    """The links so far, without duplicates, and the nodes that have one."""

    def __init__(self) -> None:
        self.links: dict[Link, None] = {}
        self.pairs: set[tuple[str, str]] = set()
        self.tails: set[str] = set()
        self.heads: set[str] = set()

    def add(self, links: Iterable[Link]) -> None:
        new = {link: None for link in links if link[:2] not in self.pairs}
        self.pairs.update(link[:2] for link in new)
        self.links.update(new)
        self.tails.update([link.tail for link in new])
        self.heads.update([link.head for link in new])

    def rest(
        self,
        before: Mapping[str, Node],
        after: Mapping[str, Node],
        of: Callable[[Node], Hashable] = lambda _: None,
    ) -> tuple[list[Node], list[Node]]:
        """Returns the nodes of both sides without links; of after those that have one's `of`."""
        tails = [node for id, node in before.items() if id not in self.tails]
        known = set(map(of, tails))
        return tails, [n for id, n in after.items() if id not in self.heads and of(n) in known]


_ID, _STAMPS = attrgetter("id"), attrgetter("stamps")  # few nodes after share them with the rest


def _family(_: NumberedModule, node: Node) -> str:
    """Returns the opcode; layout assignment turns reshapes into bitcasts, so both are equal."""
    return "reshape" if node.opcode == "bitcast" else node.opcode


def _type(_: NumberedModule, node: Node) -> str:
    return str(node.type)


def _family_and_type(program: NumberedModule, node: Node) -> tuple[str, str]:
    return _family(program, node), str(node.type)


def _name(_: NumberedModule, node: Node) -> tuple[str, str]:
    return node.id, node.opcode


def _spot(program: NumberedModule, node: Node) -> Hashable:
    """Returns the position, with the op; a reducer has that of its caller, and is told apart."""
    spot = program.spot(node)
    return (spot, node.stamps, node.id in program.applied) if spot else None


def _family_and_spot(program: NumberedModule, node: Node) -> tuple[str, int]:
    return _family(program, node), program.spot(node)


_PLACES_AND_KEYS: Mapping[How, tuple[Key[NumberedModule], tuple[Key[NumberedModule], ...]]] = {
    "named": (_name, (_type,)),
    "span": (_spot, (_family, _family_and_type, _type)),
}
_KEYS_OF_EQUALS = (_name, _family_and_spot, _family)


def _channel(_: NumberedModule, node: Node) -> Hashable:
    """Returns the channel of a collective, which all instructions that execute it have."""
    opcode = node.opcode.removesuffix("-start")
    channel = node.attrs.get("channel_id") if opcode in EXCHANGES else None
    return (opcode, channel) if channel else None


def _stamped(program: NumberedModule, node: Node) -> Hashable:
    """Returns the op that an instruction came from, and what it does, in any precision."""
    if not node.stamps:
        return None
    dtype = "float" if node.type.dtype in _FLOATS else node.type.dtype
    return node.stamps, _family(program, node), dtype, node.type.shape, node.id in program.applied


_FLOATS = frozenset({"f32", "bf16", "f16"})


def _by_identity(
    left: NumberedModule,
    right: NumberedModule,
    before: Iterable[Node],
    after: Iterable[Node],
    key: Key[NumberedModule],
) -> Iterator[Link]:
    """Links the only instruction of a key before with those of the key after.

    Several after are copies in several fusions, or the parts of a collective that other work runs
    beside. Where one computation has several values of a key, a pass expanded an op: nothing tells
    which of them is meant.
    """
    tails = grouped(left, before, key)
    for shared, heads in grouped(right, after, key, among=tails).items():
        values = {(right.home[node.id], right.value_of.get(node.id)) for node in heads}
        if len(tails[shared]) == 1 and len(values) == len({home for home, _ in values}):
            yield from (Link(tails[shared][0].id, node.id, "stamped") for node in heads)


def _by_operand(left: NumberedModule, right: NumberedModule, links: _Links) -> Iterator[Link]:
    """Links what only moves a value with what moves what that value became, if nothing else does.

    sum = all-reduce x              sum.2 = all-reduce (pad x)      linked by channel
    piece = dynamic-slice sum       piece.2 = dynamic-slice sum.2   piece-piece.2
    """
    before, after = links.rest(left.nodes, right.nodes)
    tails, heads = grouped(left, before, _move), grouped(right, after, _move)
    became: defaultdict[str, list[str]] = defaultdict(list)
    for link in links.links:
        became[link.tail].append(link.head)
    for tail in [movers[0] for movers in tails.values() if len(movers) == 1]:
        keys = ((head, _family(left, tail)) for head in became[tail.operands[0]])
        found = [node for key in keys for node in heads.get(key, ())]
        if len(found) == 1:
            became[tail.id].append(found[0].id)
            yield Link(tail.id, found[0].id, "inferred")


def _move(program: NumberedModule, node: Node) -> Hashable:
    """Returns the operand of an instruction that only moves it, and how it does."""
    family = _family(program, node)
    return (node.operands[0], family) if family in _MOVES and node.operands else None


_MOVES = frozenset({"reshape", "copy", "transpose", "slice", "dynamic-slice"})


def _by_keys(
    left: NumberedModule, right: NumberedModule, before: list[Node], after: list[Node], how: How
) -> Iterator[Link]:
    for tail, head in unique((left, right), before, after, *_PLACES_AND_KEYS[how]):
        yield Link(tail.id, head.id, how)


def _by_loops(left: NumberedModule, right: NumberedModule, links: _Links) -> Iterator[Link]:
    """Pairs loops and branches that changed, and equal values in their bodies.

    A loop to which a pass added state has another value, though most of its body is the same:

        while (i, x)  body: tanh x         while (i, x, y)  body: tanh x, exp y
    """
    before, after = links.rest(left.loops, right.loops)
    if not (before and after):
        return
    pairs: dict[str, Link] = {}
    for how in ("span", "named"):  # a link by name is surer and replaces one by position
        pairs.update((link.tail, link) for link in _by_keys(left, right, before, after, how))
    yield from pairs.values()
    bodies = [
        names
        for tail, head, _ in pairs.values()
        for names in zip(left.nodes[tail].regions, right.nodes[head].regions, strict=False)
    ]
    for link in _by_value(left, right, bodies):
        if link.tail not in links.tails and link.head not in links.heads:
            yield link


def _by_value(
    left: NumberedModule, right: NumberedModule, bodies: Iterable[tuple[str, str]]
) -> Iterator[Link]:
    """Pairs equal values within each pair of bodies, then within the bodies that pairs call."""
    pending = list(bodies)
    visited = set()
    pairs: Iterable[tuple[Node, Node]]
    while pending:
        names = pending.pop()
        if names in visited or names[0] not in left.bodies or names[1] not in right.bodies:
            continue
        visited.add(names)
        # The elements of a loop's state keep their index; passes append new ones.
        old, new = left.module.regions[names[0]], right.module.regions[names[1]]
        parameters = zip(old.parameters, new.parameters, strict=False)
        types = ((a.type.parts, b.type.parts[: len(a.type.parts)]) for a, b in parameters)
        if any([*map(str, parts)] != [*map(str, more)] for parts, more in types):
            continue
        values = right.bodies[names[1]]
        for value, tails in left.bodies[names[0]].items():
            heads = values.get(value, ())
            if len(tails) == len(heads) == 1 and tails[0].opcode == heads[0].opcode:
                pairs = zip(tails, heads, strict=True)  # the common case
            else:
                pairs = _equal(left, right, tails, heads) if heads else ()
            for tail, head in pairs:
                yield Link(tail.id, head.id, "value")
                if tail.regions and tail.opcode == head.opcode:
                    pending += zip(tail.regions, head.regions, strict=False)


def _equal(
    left: NumberedModule, right: NumberedModule, tails: Sequence[Node], heads: Sequence[Node]
) -> Iterator[tuple[Node, Node]]:
    """Links all instructions of one value on either side.

    A fusion has the value of its root, and a copy that of its operand. The keys contain the opcode
    to distinguish these from the instruction that computes the value:

        add.1 = add x, y          add.5 = add x, y            add.1 -> add.5, and to nothing else
                                  fusion.5 = fusion x, y      root: add.5
    """
    linked = set()
    for head, tail in nearest((right, left), heads, tails, _KEYS_OF_EQUALS):
        linked.add(tail.id)
        yield tail, head
    rest = [tail for tail in tails if tail.id not in linked]
    yield from nearest((left, right), rest, heads, (_family,))
