"""What jaxprs and optimised programs are paired by, across an edit: see `alike.py`.

Equations are paired by value and by the text of the line that owns them. Instructions are paired by
value and by the equations that they came from, which are paired first; a fusion by what it holds.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache

from jaxlens.ir.graph import Module, Node, Region
from jaxlens.ir.hlo.value_numbering import Key, Numbers, plain
from jaxlens.ir.jaxpr.canonical import ADDRESS, NAMING
from jaxlens.links.match.across_edits import Pairs, Side, pair
from jaxlens.links.match.instruction_fates import Change, Fate, FateName
from jaxlens.links.match.link import Link, Relation
from jaxlens.links.match.numbered import Programs, held

Text = Callable[[Node], str]
"""The text of the line that owns an equation; "" where it is not known."""


def equations(
    before: Module,
    after: Module,
    lines: tuple[Text, Text] = (lambda _: "", lambda _: ""),
    inputs: tuple[Sequence[str], Sequence[str]] = ((), ()),
) -> Pairs:
    """Pairs the equations of two jaxprs.

    Args:
        before: The one before.
        after: The one after.
        lines: Gives the source text of both sides' lines.
        inputs: Names of both sides' inputs, so that an argument put in between moves no other.
    """
    table = Numbers()
    left = _jaxpr(before, table, lines[0], inputs[0])
    right = _jaxpr(after, table, lines[1], inputs[1])
    return pair(before, after, left, right)


def instructions(
    before: tuple[Module, Module | None], after: tuple[Module, Module | None], known: Pairs | None
) -> Pairs:
    """Pairs the instructions of two optimised programs.

    Args:
        before: The one before, and the StableHLO that it was made of, whose stamps name equations.
        after: The one after, likewise.
        known: The equations that are paired; None where the stamps mean the same on both sides.
    """
    programs = Programs()
    same = known.images if known else {}
    aligned = _arguments(before[0]) == _arguments(after[0])  # else equal values mean nothing
    left = _compiled(
        before, programs, aligned, lambda e: same.get(e, e if known is None else ("gone", e))
    )
    right = _compiled(after, programs, aligned, lambda e: e)
    return _with_fusions(pair(before[0], after[0], left, right))


def change(pairs: Pairs) -> Change:
    """Two optimised programs as a change, for whoever shows one: what each node became."""
    links = [Link(tail, head, "inferred") for tail, head in pairs.images.items()]
    homes, places = held(pairs.before), held(pairs.after)
    moved = {id: pairs.images.get(home, "") for id, home in homes.items()}
    old, new = ({n.id: n for n in module.nodes()} for module in (pairs.before, pairs.after))
    fates = {}
    for id, node in old.items():
        head = pairs.images.get(id)
        if node.opcode == "parameter" and id in homes:
            continue  # inside a fusion it is only a name
        if head is None:
            fates[id] = Fate(id, "removed")
            continue
        place = places.get(head, "")
        name, note = _fate(node, new[head], moved.get(id, ""), place)
        fates[id] = Fate(id, name, (head,), (place,), "inferred", note=note)
    return Change(pairs.before, pairs.after, Relation(links), fates, places, moved)


def _fate(old: Node, new: Node, was: str, place: str) -> tuple[FateName, str]:
    if place and place != was:
        return "fused", ""
    if was and not place:
        return "rewritten", "in no fusion any more"
    if old.type != new.type and str(old.type) != str(new.type):
        return "rewritten", f"{old.type} became {new.type}"
    return "same", "" if old.id == new.id else f"renamed {new.id}"


def _jaxpr(module: Module, table: Numbers, line: Text, inputs: Sequence[str]) -> Side:
    kinds = {node.id: _kind(node, module) for node in module.nodes()}

    def words(node: Node) -> Hashable:
        text = line(node)
        return (text, _transforms(node.scope)) if text else None

    bodies = {name: region.nodes for name, region in module.regions.items()}
    values = _values(module, table, kinds, inputs)
    given = {
        region.name: {
            value.name: f"input {name}"
            for value, name in zip(region.parameters, _names(module, region, inputs), strict=True)
        }
        for region in module.regions.values()
    }
    return Side(bodies, module.entry, values, lambda node: kinds[node.id], words, given)


@cache
def _transforms(scope: str) -> str:
    """What was put round an equation: forward and backward pass are told apart by it."""
    return ",".join(re.findall(r"\b(\w++)\(", scope))


def _kind(node: Node, module: Module) -> Key:
    """Operation, attributes and types of results; what names a body or a function is left out."""
    told = tuple(
        (name, ADDRESS.sub("", text))
        for name, text in node.attrs.items()
        if name not in NAMING
        and text != "None"  # as if it had not been said
        and not any(inner in text for inner in node.regions)
    )
    return (node.opcode, told, tuple(str(value.type) for value in node.results))


def _values(
    module: Module, table: Numbers, kinds: Mapping[str, Key], inputs: Sequence[str]
) -> dict[str, int]:
    """What each equation computes from its body's parameters; callees are numbered first."""
    found: dict[str, int] = {}
    functions: dict[str, int] = {}
    for name, region in reversed(tuple(module.regions.items())):
        known = _parameters(module, region, table, inputs)
        for node in region.nodes:
            called = tuple(functions.get(inner, inner) for inner in node.regions)
            read = tuple(known.get(n, n) for n in node.operands)
            number = table.of((kinds[node.id], called, read))
            found[node.id] = number
            for n, value in enumerate(node.results):
                known[value.name] = table.of((number, n))
        results = tuple(known.get(n, n) for n in region.results)
        functions[name] = table.of(("body", len(region.parameters), results))
    return found


def _parameters(
    module: Module, region: Region, table: Numbers, inputs: Sequence[str]
) -> dict[str, int]:
    """The numbers of what comes in."""
    return {
        value.name: table.of(("parameter", name, str(value.type)))
        for name, value in zip(_names(module, region, inputs), region.parameters, strict=True)
    }


def _names(module: Module, region: Region, inputs: Sequence[str]) -> list[Hashable]:
    """What comes in: of the entry by the user's names, of a body by position."""
    count = len(region.parameters)
    names: list[Hashable] = list(range(count))
    if region.name == module.entry and 0 < len(inputs) <= count:
        names[count - len(inputs) :] = inputs
    return names


def _arguments(module: Module) -> list[tuple[str, str]]:
    """What comes in, in order: the name that JAX gave it, and its type."""
    nodes = module.body().nodes
    return [(n.scope, plain(n.type)) for n in nodes if n.opcode == "parameter"]


def _compiled(
    stages: tuple[Module, Module | None],
    programs: Programs,
    aligned: bool,
    image: Callable[[str], Hashable],
) -> Side:
    module, stablehlo = stages
    program = programs.of(module)
    made = {node.id: node.stamps for node in stablehlo.nodes()} if stablehlo else {}

    def words(node: Node) -> Hashable:
        ops = [path[-1] for path in node.stamps]
        if not ops:
            return node.scope or None
        return frozenset(image(path[-1]) for op in ops for path in made.get(op, ())) or None

    bodies: dict[str, list[Node]] = {}
    values: dict[str, int] = {}
    for name, classes in program.bodies.items():
        bodies[name] = []
        for value, nodes in classes.items():
            for node in nodes:
                if node.opcode != "fusion" and node.id not in values:
                    values[node.id] = value
                    bodies[name].append(node)
    known = values if aligned else {}
    kinds = {
        node.id: (node.opcode, plain(node.type)) for nodes in bodies.values() for node in nodes
    }
    return Side(bodies, module.entry, known, lambda node: kinds[node.id], words)


def _with_fusions(found: Pairs) -> Pairs:
    """Pairs each fusion with the one that holds most of what it holds."""
    homes, places = held(found.before), held(found.after)
    votes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for tail, head in found.images.items():
        if tail in homes and head in places:
            votes[homes[tail]][places[head]] += 1
    ranked = sorted(
        ((n, tail, head) for tail, counts in votes.items() for head, n in counts.items()),
        key=lambda vote: -vote[0],
    )
    pairs: dict[str, str] = {}
    done: set[str] = set()
    for _, tail, head in ranked:
        if tail not in pairs and head not in done:
            pairs[tail] = head
            done.add(head)
    same, changed = dict(found.same), dict(found.changed)
    inside_before, inside_after = _held(found.before, homes), _held(found.after, places)
    for tail, head in pairs.items():
        there = {same.get(id, "") for id in inside_before[tail]}
        (same if there == inside_after[head] else changed)[tail] = head
    gone = [n.id for n in _fusions(found.before, homes) if n.id not in pairs]
    new = [n.id for n in _fusions(found.after, places) if n.id not in done]
    return Pairs(found.before, found.after, same, changed, (*found.gone, *gone), (*found.new, *new))


def _fusions(module: Module, homes: Mapping[str, str]) -> list[Node]:
    return [n for n in module.nodes() if n.opcode == "fusion" and n.id not in homes]


def _held(module: Module, homes: Mapping[str, str]) -> dict[str, set[str]]:
    """What each fusion holds, parameters left out."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for node in module.nodes():
        if node.id in homes and node.opcode not in ("parameter", "fusion"):
            found[homes[node.id]].add(node.id)
    return found
