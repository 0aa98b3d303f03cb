"""Pairs the nodes of two programs of different compiles: before and after an edit, on two devices.

An edit renumbers all nodes after it, so names and positions identify nothing. A node is identified
by the value that it computes, then by its operation and source line. With a line inserted on top:

    before                              after
    e0 = sin x        a = sin(x)        e0 = mul x 2.0    x = 2 * x     new
                                        e1 = sin e0       a = sin(x)    e0-e1: opcode, type, line
    e1 = exp e0       b = exp(a)        e2 = exp e1       b = exp(a)    e1-e2: opcode, type, line

Bodies are paired through the calls that reach them: the body of a scan with that of the scan that
is paired with it. Equations have source lines. Instructions have the equations that they came from,
which are paired first; a fusion is paired with the one that shares most of its instructions.
"""

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from itertools import chain

from jaxlens.ir.graph import Module, Node, Region
from jaxlens.ir.hlo import value_numbering
from jaxlens.ir.hlo.value_numbering import Numbers
from jaxlens.ir.jaxpr.canonical import ADDRESS, NAMING
from jaxlens.links.match.by_keys import Key, in_order
from jaxlens.links.match.numbered import NumberedModules, enclosing_fusions, fusion_contents

_PAIRS, _ALIKE = 10_000, 0.6  # pairs of lines that are compared, and the least ratio of an edit
_TRANSFORM = re.compile(r"\b(\w++)\(")
Text = Callable[[Node], str]
"""Returns the text of the line that owns an equation; "" if it is not known."""


@dataclass(frozen=True, slots=True)
class Side:
    """What the keys look up about one of the two programs.

    Attributes:
        bodies: Nodes by body, in program order.
        entry: The entry body.
        values: Value number of each node over its body's parameters, in a table of both sides.
        kinds: Operation, attributes and types of each node.
        purpose: Returns the source line or equations of a node, equal on both sides for the
            same ones; None if they are not known.
        inputs: For each body, names of its parameters that are the same on both sides.
    """

    bodies: Mapping[str, Sequence[Node]]
    entry: str
    values: Mapping[str, int]
    kinds: Mapping[str, Hashable]
    purpose: Callable[[Node], Hashable]
    inputs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def _value(side: Side, node: Node) -> Hashable:
    return side.values.get(node.id)


def _kind(side: Side, node: Node) -> Hashable:
    return side.kinds[node.id]


def _kind_and_purpose(side: Side, node: Node) -> Hashable:
    purpose = side.purpose(node)
    return None if purpose is None else (side.kinds[node.id], purpose)


def _opcode_and_purpose(side: Side, node: Node) -> Hashable:
    purpose = side.purpose(node)
    return None if purpose is None else (node.opcode, purpose)


@dataclass(frozen=True)
class Pairs:
    """The pairs of corresponding nodes of two programs.

    Attributes:
        before: The program before.
        after: The program after.
        same: Ids after by ids before, of nodes of the same kind.
        changed: Ids after by ids before, of nodes with other types or attributes.
        gone: Ids before without a pair.
        new: Ids after without a pair.
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


def equations(
    before: Module,
    after: Module,
    lines: tuple[Text, Text] = (lambda _: "", lambda _: ""),
    inputs: tuple[Sequence[str], Sequence[str]] = ((), ()),
) -> Pairs:
    """Pairs the equations of two jaxprs.

    Args:
        before: The jaxpr before.
        after: The jaxpr after.
        lines: For both sides a function that returns the source text of an equation's line.
        inputs: Names of both sides' inputs, so that an inserted argument renumbers no other.
    """
    table = Numbers()
    left = _jaxpr(before, table, lines[0], inputs[0])
    right = _jaxpr(after, table, lines[1], inputs[1])
    return _pair(before, after, left, right)


def instructions(
    before: tuple[Module, Module | None],
    after: tuple[Module, Module | None],
    equations: Pairs | None,
) -> Pairs:
    """Pairs the instructions of two optimised programs.

    Args:
        before: The program before, and its StableHLO, whose stamps name equations.
        after: The program after, and its StableHLO.
        equations: The pairs of equations; None if stamps mean the same on both sides.
    """
    programs = NumberedModules()
    images = equations.images if equations else {}

    def image(equation: str) -> Hashable:
        return images.get(equation, equation if equations is None else ("gone", equation))

    aligned = _arguments(before[0]) == _arguments(after[0])  # else equal value numbers mean nothing
    left = _compiled(before, programs, aligned, image)
    right = _compiled(after, programs, aligned, lambda equation: equation)
    return _with_fusions(_pair(before[0], after[0], left, right))


def _pair(before: Module, after: Module, left: Side, right: Side) -> Pairs:
    same: dict[str, str] = {}
    changed: dict[str, str] = {}
    images: dict[str, str] = {}  # same and changed; `_pairs` reads it as it grows
    for tail, head in _pairs(left, right, images):
        images[tail.id] = head.id
        (same if left.kinds[tail.id] == right.kinds[head.id] else changed)[tail.id] = head.id
    heads = set(images.values())
    tail_ids = (node.id for node in chain.from_iterable(left.bodies.values()))
    head_ids = (node.id for node in chain.from_iterable(right.bodies.values()))
    gone = tuple(id for id in tail_ids if id not in images)
    new = tuple(id for id in head_ids if id not in heads)
    return Pairs(before, after, same, changed, gone, new)


def _pairs(left: Side, right: Side, images: Mapping[str, str]) -> Iterator[tuple[Node, Node]]:
    """Pairs the entry bodies, then bodies of paired calls, then nodes of all other bodies.

    Args:
        left: The program before.
        right: The program after.
        images: The pairs so far; the caller adds each pair before it takes the next.
    """
    sides = left, right
    pending = deque([(left.entry, right.entry)])
    tails, heads = dict(left.bodies), dict(right.bodies)
    while pending:
        names = pending.popleft()
        if names[0] not in tails or names[1] not in heads:
            continue  # paired already, or no body of its own
        bodies = tails.pop(names[0]), heads.pop(names[1])
        yield from in_order(sides, *bodies, _keys(sides, names, bodies, images))
        by_id = {node.id: node for node in bodies[1]}
        for node in bodies[0]:
            image = images.get(node.id)
            if node.regions and image in by_id:
                pending.extend(zip(node.regions, by_id[image].regions, strict=False))
    before, after = ([n for nodes in side.values() for n in nodes] for side in (tails, heads))
    yield from in_order(sides, before, after, (_kind_and_purpose,))


def _keys(
    sides: tuple[Side, Side],
    names: tuple[str, str],
    bodies: tuple[Sequence[Node], Sequence[Node]],
    images: Mapping[str, str],
) -> Iterator[Key[Side]]:
    """Yields the keys of two bodies; the last one uses the pairs that the others gave.

    It consists of the opcode and the operands, each operand replaced by its pair:

        y = dot x w       y2 = dot x w: f16     paired before: "changed"
        neg y: f32        neg y2: f16           paired now: equal operands
    """
    yield from (_value, _kind_and_purpose, _opcode_and_purpose, _kind)
    tails, heads = bodies
    paired = {images[node.id] for node in tails if node.id in images}
    left = {v.name: images[n.id] for n in tails if n.id in images for v in n.results}
    right = {v.name: n.id for n in heads if n.id in paired for v in n.results}
    left = {**sides[0].inputs.get(names[0], {}), **left}
    right = {**sides[1].inputs.get(names[1], {}), **right}

    def opcode_and_operands(side: Side, node: Node) -> Hashable:
        images_of = left if side is sides[0] else right
        operands = tuple(images_of.get(name) for name in node.operands)
        return (node.opcode, operands) if any(operands) else None

    yield opcode_and_operands


def _jaxpr(module: Module, table: Numbers, line: Text, inputs: Sequence[str]) -> Side:
    kinds = {node.id: printed_kind(node) for node in module.nodes()}

    def purpose(node: Node) -> Hashable:
        text = line(node)
        # Transforms in the scope differ between forward and backward pass.
        return (text, *_TRANSFORM.findall(node.scope)) if text else None

    bodies = {name: region.nodes for name, region in module.regions.items()}
    values = _values(module, table, kinds, inputs)
    names = {
        region.name: {
            value.name: f"input {name}"
            for value, name in zip(region.parameters, _names(module, region, inputs), strict=True)
        }
        for region in module.regions.values()
    }
    return Side(bodies, module.entry, values, kinds, purpose, names)


def printed_kind(node: Node) -> value_numbering.Key:
    """Returns opcode, attributes, literals and types of results, without names of functions."""
    attrs = tuple(
        (name, ADDRESS.sub("", text))
        for name, text in node.attrs.items()
        if name not in NAMING
        and text != "None"  # a default that is not set
        and not any(inner in text for inner in node.regions)
    )
    literals = tuple((n, text) for n, text in enumerate(node.operands) if is_literal(text))
    return (node.opcode, attrs, literals, tuple(str(value.type) for value in node.results))


def is_literal(operand: str) -> bool:
    """Whether an operand of an equation is a literal ("2.0:f32[]"), and no value's name."""
    return ":" in operand


def _values(
    module: Module, table: Numbers, kinds: Mapping[str, value_numbering.Key], inputs: Sequence[str]
) -> dict[str, int]:
    """Returns the value number of each equation over its body's parameters, callees first."""
    numbers: dict[str, int] = {}
    functions: dict[str, int] = {}
    for name, region in reversed(tuple(module.regions.items())):
        parameters = zip(_names(module, region, inputs), region.parameters, strict=True)
        values = {v.name: table.of(("parameter", n, str(v.type))) for n, v in parameters}
        for node in region.nodes:
            callees = tuple(functions.get(inner, inner) for inner in node.regions)
            operands = tuple(values.get(n, n) for n in node.operands)
            number = numbers[node.id] = table.of((kinds[node.id], callees, operands))
            for n, value in enumerate(node.results):
                values[value.name] = table.of((number, n))
        results = tuple(values.get(n, n) for n in region.results)
        functions[name] = table.of(("body", len(region.parameters), results))
    return numbers


def _names(module: Module, region: Region, inputs: Sequence[str]) -> list[Hashable]:
    """Returns names of a body's parameters: input names for the entry, else positions."""
    count = len(region.parameters)
    names: list[Hashable] = list(range(count))
    if region.name == module.entry and 0 < len(inputs) <= count:
        names[count - len(inputs) :] = inputs
    return names


def _arguments(module: Module) -> list[tuple[str, str]]:
    """Returns name and type of each argument, in order; JAX writes the name into the scope."""
    nodes = module.body().nodes
    return [(n.scope, str(n.type)) for n in nodes if n.opcode == "parameter"]


def _compiled(
    stages: tuple[Module, Module | None],
    programs: NumberedModules,
    aligned: bool,
    image: Callable[[str], Hashable],
) -> Side:
    module, stablehlo = stages
    program = programs.numbered(module)
    stamps = {node.id: node.stamps for node in stablehlo.nodes()} if stablehlo else {}

    def purpose(node: Node) -> Hashable:
        ops = [path[-1] for path in node.stamps]
        if not ops:
            return node.scope or None
        return frozenset(image(path[-1]) for op in ops for path in stamps.get(op, ())) or None

    bodies: dict[str, list[Node]] = {}
    values: dict[str, int] = {}
    for name, classes in program.bodies.items():
        bodies[name] = []
        for value, nodes in classes.items():
            for node in nodes:
                if node.opcode != "fusion" and node.id not in values:
                    values[node.id] = value
                    bodies[name].append(node)
    kinds = {n.id: (n.opcode, str(n.type)) for nodes in bodies.values() for n in nodes}
    return Side(bodies, module.entry, values if aligned else {}, kinds, purpose)


def _with_fusions(pairs: Pairs) -> Pairs:
    """Pairs each fusion with the one that has most of the pairs of its instructions.

    fusion.1 {add, mul, tanh}       fusion.7 {add, mul}       1-7: two common instructions
    fusion.2 {exp}                  fusion.8 {tanh, exp}      2-8: one, and 8 is not paired yet
    """
    homes, places = enclosing_fusions(pairs.before), enclosing_fusions(pairs.after)
    votes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for tail, head in pairs.images.items():
        if tail in homes and head in places:
            votes[homes[tail]][places[head]] += 1
    ranked = sorted(
        ((n, tail, head) for tail, counts in votes.items() for head, n in counts.items()),
        key=lambda vote: -vote[0],
    )
    same, changed = dict(pairs.same), dict(pairs.changed)
    inside = fusion_contents(pairs.before, homes)
    after_inside = fusion_contents(pairs.after, places)
    heads: set[str] = set()
    for _, tail, head in ranked:
        if tail not in same and tail not in changed and head not in heads:
            heads.add(head)
            images = {pairs.same.get(id, "") for id in inside[tail]}
            (same if images == {*after_inside[head]} else changed)[tail] = head
    before = [n.id for n in pairs.before.nodes() if n.opcode == "fusion" and n.id not in homes]
    after = [n.id for n in pairs.after.nodes() if n.opcode == "fusion" and n.id not in places]
    gone = (id for id in before if id not in same and id not in changed)
    new = (id for id in after if id not in heads)
    return Pairs(pairs.before, pairs.after, same, changed, (*pairs.gone, *gone), (*pairs.new, *new))


def edited_lines(before: Set[str], after: Set[str]) -> dict[str, str]:
    """Returns the text before of each edited line by its text after; {} for many lines."""
    removed, new = sorted(before - after - {""}), sorted(after - before - {""})
    edited: dict[str, str] = {}
    alike = _ALIKE if len(removed) > 1 or len(new) > 1 else _ALIKE / 2
    for text in new if len(removed) * len(new) <= _PAIRS else ():
        for close in get_close_matches(text, removed, n=1, cutoff=alike):
            edited[text] = close
            removed.remove(close)
    return edited
