"""Pairs the nodes of two programs that no compile links: before and after an edit, on two devices.

Identity is what a node computes, then what it does for which line, and never its name or its
position: an edit renumbers all that follows it. Bodies are paired through the calls that reach
them. Each step is linear in the programs' size:

1. the same value: the same expression of the same inputs;
2. the same operation at the same types for the same words (a source line's text, an equation);
3. the same operation for the same words, at other types: "changed";
4. the same operation at the same types anywhere, in order;
5. the same operation on an operand that is paired: "changed".
"""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from jaxlens.ir.graph import Module, Node

Words = Callable[[Node], Hashable]
Key = Callable[[Node], Hashable]
"""What nodes must share to be paired; None for a node that cannot be by this."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two programs.

    Attributes:
        bodies: Nodes by body, in program order.
        entry: The body where it starts.
        values: What each node computes from its body's parameters, as a number of one table.
        kind: What a node does, at which types.
        words: What it is for; equal words mean the same on both sides. None where nothing is known.
        inputs: For each body, what comes in: the name that both sides know it by, by its own.
    """

    bodies: Mapping[str, Sequence[Node]]
    entry: str
    values: Mapping[str, int]
    kind: Key
    words: Words
    inputs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Pairs:
    """Who is who.

    Attributes:
        before: The program before.
        after: The program after.
        same: Ids after by ids before, of nodes that do the same.
        changed: The same of nodes that do it at other types or with other attributes.
        gone: Ids before that nothing after stands for.
        new: Ids after that stand for nothing before.
    """

    before: Module
    after: Module
    same: Mapping[str, str]
    changed: Mapping[str, str]
    gone: tuple[str, ...]
    new: tuple[str, ...]

    @cached_property
    def images(self) -> Mapping[str, str]:
        """Ids after by ids before, changed or not."""
        return {**self.same, **self.changed}

    @cached_property
    def equal(self) -> bool:
        """Whether nothing is new, gone or changed."""
        return not (self.changed or self.gone or self.new)


def pair(before: Module, after: Module, left: Side, right: Side) -> Pairs:
    """Pairs the nodes of two programs, each with at most one.

    Args:
        before: The program before.
        after: The program after.
        left: What is known of it.
        right: What is known of the program after, numbered by the same table.
    """
    work = _Pairing(left, right)
    work.bodies()
    ids = [node.id for nodes in left.bodies.values() for node in nodes]
    heads = [node.id for nodes in right.bodies.values() for node in nodes]
    gone = tuple(id for id in ids if id not in work.images)
    new = tuple(id for id in heads if id not in work.met)
    return Pairs(before, after, work.same, work.changed, gone, new)


class _Pairing:
    """The pairs so far."""

    def __init__(self, left: Side, right: Side) -> None:
        self.left, self.right = left, right
        self.same: dict[str, str] = {}
        self.changed: dict[str, str] = {}
        self.images: dict[str, str] = {}  # both of them
        self.met: set[str] = set()  # ids after

    def bodies(self) -> None:
        """The entries, what paired calls reach, and then what no pair of calls reaches."""
        pending = deque([(self.left.entry, self.right.entry)])
        ours, theirs = dict(self.left.bodies), dict(self.right.bodies)
        while pending:
            tail, head = pending.popleft()
            if tail not in ours or head not in theirs:
                continue  # paired already, or no body of its own
            mine, others = ours.pop(tail), theirs.pop(head)
            self._body(mine, others)
            given = self.left.inputs.get(tail, {}), self.right.inputs.get(head, {})
            self._zip(mine, others, *self._reading(mine, others, *given))
            by_id = {node.id: node for node in others}
            for node in mine:
                image = self.images.get(node.id)
                if node.regions and image in by_id:
                    pending.extend(zip(node.regions, by_id[image].regions, strict=False))
        tails, heads = ([n for nodes in some.values() for n in nodes] for some in (ours, theirs))
        left, right = self.left, self.right
        self._zip(tails, heads, self._for(left, left.kind), self._for(right, right.kind))

    def _body(self, tails: Sequence[Node], heads: Sequence[Node]) -> None:
        left, right = self.left, self.right
        self._zip(tails, heads, lambda n: left.values.get(n.id), lambda n: right.values.get(n.id))
        for ours, theirs in ((left.kind, right.kind), (_opcode, _opcode)):
            self._zip(tails, heads, self._for(left, ours), self._for(right, theirs))
        self._zip(tails, heads, left.kind, right.kind)

    def _reading(
        self,
        tails: Sequence[Node],
        heads: Sequence[Node],
        left: Mapping[str, str],
        right: Mapping[str, str],
    ) -> tuple[Key, Key]:
        """Keys of operation and operands, the operands by what they are paired with."""
        images = self.images
        known = {images[node.id] for node in tails if node.id in images}
        ours = {v.name: images[n.id] for n in tails if n.id in images for v in n.results}
        theirs = {v.name: n.id for n in heads if n.id in known for v in n.results}

        def key(names: Mapping[str, str]) -> Key:
            def of(node: Node) -> Hashable:
                read = tuple(names.get(name) for name in node.operands)
                return (node.opcode, read) if any(read) else None

            return of

        return key({**left, **ours}), key({**right, **theirs})

    @staticmethod
    def _for(side: Side, what: Key) -> Key:
        """What a node does, and for which words."""

        def key(node: Node) -> Hashable:
            words = side.words(node)
            return None if words is None else (what(node), words)

        return key

    def _zip(self, tails: Iterable[Node], heads: Iterable[Node], of: Key, to: Key) -> None:
        """Pairs what shares a key, in order."""
        waiting: defaultdict[Hashable, deque[Node]] = defaultdict(deque)
        for node in tails:
            if node.id not in self.images:
                key = of(node)
                if key is not None:
                    waiting[key].append(node)
        for node in heads if waiting else ():
            queue = None if node.id in self.met else waiting.get(to(node))
            if queue:
                self._add(queue.popleft(), node)

    def _add(self, tail: Node, head: Node) -> None:
        alike = self.left.kind(tail) == self.right.kind(head)
        (self.same if alike else self.changed)[tail.id] = head.id
        self.images[tail.id] = head.id
        self.met.add(head.id)


def _opcode(node: Node) -> str:
    return node.opcode
