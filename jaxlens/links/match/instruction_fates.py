"""The fate of each instruction between two HLO programs of one compile, and the responsible pass.

The fates: "same"; "fused" into one or more fusions; "rewritten" (other opcode, type or operands);
"merged" with an instruction of the same value; "folded" into a constant; "removed". The
responsible pass is the one whose dump first shows the change. The dump at the start of a pipeline
can show changes of passes without a dump: then an interval is named.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from jaxlens.ir.facts import PassStage, Stage
from jaxlens.ir.graph import Module, Node
from jaxlens.ir.hlo.instructions import EXCHANGES, users_of
from jaxlens.ir.hlo.passes import START, interval
from jaxlens.links.match.across_edits import Pairs
from jaxlens.links.match.link import Link, Relation
from jaxlens.links.match.numbered import (
    NumberedModule,
    NumberedModules,
    enclosing_fusions,
    fusion_contents,
)
from jaxlens.links.match.same_compile import follow

FateName = Literal["same", "fused", "rewritten", "merged", "folded", "removed"]


@dataclass(frozen=True, slots=True)
class Fate:
    """The fate of one instruction.

    Attributes:
        id: The instruction before.
        name: The fate in one word.
        into: Instructions after that it became.
        fusions: The fusion around each of `into`; "" for one outside all fusions.
        by: The responsible pass ("fusion"), an interval ("between cse and algsimp") or "".
        note: Details as part of a sentence, "" for none.
        once: Whether `into` are the parts of one execution, as of an asynchronous collective.
    """

    id: str
    name: FateName
    into: tuple[str, ...] = ()
    fusions: tuple[str, ...] = ()
    by: str = ""
    note: str = ""
    once: bool = False

    @property
    def copies(self) -> int:
        """The number of fusions or instructions that compute it after; above 1 it is recomputed."""
        if self.name == "fused" and not self.once:
            return len(set(self.fusions))
        return min(len(self.into), 1)


@dataclass(frozen=True)
class ProgramChange:
    """Two programs and the fates of the instructions of the earlier one.

    Attributes:
        before: The earlier program.
        after: The later one.
        relation: The links between their instructions.
        fates: The fate of each instruction before.
        fusion_after: The fusion around each instruction after; those outside fusions left out.
        fusion_before: The fusion around each instruction before, likewise.
    """

    before: Module
    after: Module
    relation: Relation
    fates: Mapping[str, Fate]
    fusion_after: Mapping[str, str]
    fusion_before: Mapping[str, str]

    @cached_property
    def added(self) -> tuple[str, ...]:
        """Instructions after without a link to one before; without parameters of fusions."""
        linked = {link.head for link in self.relation.links}
        unlinked = (node for node in self.after.nodes() if node.id not in linked)
        inside = self.fusion_after
        return tuple(n.id for n in unlinked if n.opcode != "parameter" or n.id not in inside)

    @cached_property
    def contents(self) -> Mapping[str, tuple[str, ...]]:
        """The instructions in each fusion after, in order, without parameters."""
        inside = fusion_contents(self.after, self.fusion_after)
        fusions = (node.id for node in self.after.nodes() if node.opcode == "fusion")
        outer = (fusion for fusion in fusions if fusion not in self.fusion_after)
        return {fusion: tuple(inside.get(fusion, ())) for fusion in outer}


def between(
    before: Module,
    after: Module,
    passes: Sequence[PassStage] = (),
    programs: NumberedModules | None = None,
) -> ProgramChange:
    """Compares two programs of one compile.

    Args:
        before: The earlier program.
        after: The later one.
        passes: The dumps written after `before`, in order; the last may be `after` itself. They
            are read to follow instructions that the two ends do not link, and to name the
            responsible passes. Without them no pass is named.
        programs: Numbered modules of this compile, to share with other comparisons.
    """
    programs = programs or NumberedModules()
    first, last = programs.numbered(before), programs.numbered(after)
    relation = follow(first, last)
    blame = _Blame({}, {}, {}, {})
    if passes:
        through, blame = _traced(first, last, passes, programs)
        tails = {link.tail for link in relation.links}
        heads = {link.head for link in relation.links}
        more = [
            link
            for link in through.links
            if link.tail not in tails
            and (
                link.head not in heads
                or first.nodes[link.tail].opcode == last.nodes[link.head].opcode
            )
        ]
        relation = Relation((*relation.links, *more))
    fates = _Judge(first, last, relation, blame).fates()
    return ProgramChange(before, after, relation, fates, last.fusion_of, first.fusion_of)


def after_edit(pairs: Pairs) -> ProgramChange:
    """Returns the change between two optimised programs that were paired across an edit."""
    links = [Link(tail, head, "inferred") for tail, head in pairs.images.items()]
    homes, places = enclosing_fusions(pairs.before), enclosing_fusions(pairs.after)
    moved = {id: pairs.images.get(home, "") for id, home in homes.items()}
    old, new = ({n.id: n for n in module.nodes()} for module in (pairs.before, pairs.after))
    fates = {}
    for id, node in old.items():
        head = pairs.images.get(id)
        if node.opcode == "parameter" and id in homes:
            continue  # a parameter inside a fusion only names an operand
        if head is None:
            fates[id] = Fate(id, "removed")
            continue
        before, place, type_ = moved.get(id, ""), places.get(head, ""), new[head].type
        name: FateName = "same"
        note = "" if id == head else f"renamed {head}"
        if place and place != before:
            name, note = "fused", ""
        elif before and not place:
            name, note = "rewritten", "in no fusion any more"
        elif node.type != type_ and str(node.type) != str(type_):
            name, note = "rewritten", f"{node.type} became {type_}"
        fates[id] = Fate(id, name, (head,), (place,), note=note)
    return ProgramChange(pairs.before, pairs.after, Relation(links), fates, places, moved)


@dataclass(frozen=True, slots=True)
class _Blame:
    """The pass that removed each instruction, fused it, renamed it or changed it, by id."""

    ended: dict[str, str]
    fused: dict[str, str]
    renamed: dict[str, str]
    changed: dict[str, str]


def _traced(
    first: NumberedModule,
    last: NumberedModule,
    passes: Sequence[PassStage],
    programs: NumberedModules,
) -> tuple[Relation, _Blame]:
    """Follows each instruction dump by dump to the passes that changed it."""
    images: dict[str, tuple[str, ...]] = {id: (id,) for id in first.nodes}
    looks = {id: _look(node) for id, node in first.nodes.items()}
    blame = _Blame({}, {}, {}, {})
    earlier, places = first, first.fusion_of
    for dump, by, _ in dumps(passes, last.module):
        later = programs.numbered(dump.module if dump else last.module)
        step, nodes = follow(earlier, later), later.nodes
        before_step, places = places, later.fusion_of
        for id, now in images.items():
            if not now:
                continue
            heads = tuple(dict.fromkeys(head for tail in now for head in step.forward(tail)))
            images[id] = heads
            if not heads:
                blame.ended[id] = by
            elif id not in heads:
                blame.renamed.setdefault(id, by)
            elif _look(nodes[id]) != looks[id]:
                blame.changed.setdefault(id, by)
            if any(head in places for head in heads) and not any(i in before_step for i in now):
                blame.fused.setdefault(id, by)
        if earlier is not first:
            programs.forget(earlier.module)
        earlier = later
    links = [Link(id, head, "inferred") for id, heads in images.items() for head in heads]
    return Relation(links), blame


def _look(node: Node) -> tuple[object, ...]:
    return node.opcode, str(node.type), node.operands


def dumps(
    passes: Sequence[PassStage], last: Module, earlier: PassStage | None = None
) -> Iterator[tuple[Stage | None, str, int | None]]:
    """Yields the dumps that changed something, then None for the final program.

    The responsible pass and the index of the dump are yielded with each.

    Args:
        passes: The dumps in order.
        last: The final program; left out if it is the last dump itself.
        earlier: The dump before `passes`.
    """
    for dump in passes:
        if dump.changed:
            yield dump.stage, blamed(earlier, dump), dump.index
        earlier = dump
    if earlier is None:
        yield None, "", None
    elif not earlier.stage.holds(last):
        name = earlier.stage.title if earlier.name == START else earlier.name
        yield None, f"after {name}", None


def blamed(earlier: PassStage | None, later: PassStage) -> str:
    """Returns the pass of a dump; an interval if the dump is at the start of a pipeline."""
    if later.name != START:
        return later.name
    return interval(earlier, later) if earlier else f"before {later.pipeline}"


class _Judge:
    """Concludes the fate of each instruction from its links, operands and users."""

    def __init__(
        self, before: NumberedModule, after: NumberedModule, relation: Relation, blame: _Blame
    ) -> None:
        self.before = before.module
        self.relation = relation
        self.blame = blame
        self.old, self.new = before.nodes, after.nodes
        self.fusion_before, self.fusion_after = before.fusion_of, after.fusion_of
        self.done: dict[str, Fate] = {}

    @cached_property
    def constants(self) -> set[str]:
        """The instructions that depend only on constants, transitively."""
        constant: set[str] = set()
        for node in self.before.nodes():
            if node.opcode in ("constant", "iota") or (
                node.operands
                and node.opcode not in ("parameter", "while", "custom-call", "infeed", "rng")
                and constant.issuperset(node.operands)
            ):
                constant.add(node.id)
        return constant

    @cached_property
    def users(self) -> dict[str, list[Node]]:
        """The instructions that read each one."""
        regions = self.before.regions.values()
        return {name: users for each in regions for name, users in users_of(each).items()}

    @cached_property
    def orphans(self) -> set[str]:
        """The instructions of computations without callers."""
        called = {name for node in self.before.nodes() for name in node.regions}
        names = self.before.regions.keys() - called - {self.before.entry}
        return {node.id for name in names for node in self.before.regions[name].nodes}

    def fates(self) -> dict[str, Fate]:
        for id, node in reversed(self.old.items()):  # users before their operands
            self.done[id] = self._fate(node)
        return {id: self.done[id] for id in self.old}

    def _fate(self, node: Node) -> Fate:
        links = self.relation.out(node.id)
        if not links:
            return self._gone(node)
        into = tuple(link.head for link in links)
        fusions = tuple(self.fusion_after.get(head, "") for head in into)
        renamed = self.blame.renamed.get(node.id, "")
        home = self.fusion_before.get(node.id, "")
        if any(fusions) and fusions.count(home) < len(fusions):
            by = self.blame.fused.get(node.id, "")
            once = node.opcode in EXCHANGES
            return Fate(node.id, "fused", into, fusions, by, once=once)
        if node.id not in into and links[0].how == "value" and into[0] in self.old:
            return Fate(node.id, "merged", into, fusions, renamed, f"with {into[0]}")
        note = self._difference(node, self.new[node.id if node.id in into else into[0]])
        if note:
            by = renamed or self.blame.changed.get(node.id, "")
            return Fate(node.id, "rewritten", into, fusions, by, note)
        note = "" if node.id in into else f"renamed {into[0]}"
        return Fate(node.id, "same", into, fusions, renamed, note)

    def _difference(self, old: Node, new: Node) -> str:
        """Returns what differs between an instruction and what it became; "" for nothing."""
        if old.opcode != new.opcode:
            return f"{old.opcode} became {new.opcode}"
        if str(old.type) != str(new.type):
            return f"{old.type} became {new.type}"
        if any(link.how == "value" for link in self.relation.out(old.id)):
            return ""
        if len(old.operands) != len(new.operands):
            return f"{len(old.operands)} operands became {len(new.operands)}"
        for was, now in zip(old.operands, new.operands, strict=True):
            heads = self.relation.forward(was)
            # An operand can be a fusion around what `was` became, or denote it inside a fusion.
            node = self.new.get(now)
            if (
                was != now
                and now not in heads
                and node is not None
                and node.opcode not in ("parameter", "copy", "get-tuple-element")
                and all(self.fusion_after.get(head) != now for head in heads)
            ):
                return f"reads {now}, was {was}"
        return ""

    def _gone(self, node: Node) -> Fate:
        """Returns the fate of an instruction without links: folded into a constant, or removed."""
        name: FateName = "removed"
        users = self.users.get(node.id, ())
        if node.id in self.orphans:
            note = "its computation was called by nothing already"
        elif node.opcode == "call":
            note = "inlined: its body took its place"
        elif node.opcode == "parameter":
            note = "the computation it belonged to is gone"
        else:
            instead, kept = self._instead(node, users), ("constant", "copy")
            alive = any(self.relation.forward(user.id) for user in users)
            folded = any(u.id in self.done and self.done[u.id].name == "folded" for u in users)
            if instead is not None and instead.opcode == "constant" and node.opcode not in kept:
                name, note = "folded", f"into {instead.id}"
            elif node.opcode not in kept and node.id in self.constants and (alive or folded):
                name, note = "folded", "it depended on constants only"
            elif instead is not None:
                note = f"{instead.id} is read in its place"
            elif not users and node.id not in self._roots:
                note = "dead: nothing read it"
            else:
                with_users = users and not alive
                note = "gone with what read it" if with_users else "nothing reads it any more"
        return Fate(node.id, name, by=self.blame.ended.get(node.id, ""), note=note)

    @cached_property
    def _roots(self) -> frozenset[str]:
        return frozenset(r for region in self.before.regions.values() for r in region.results)

    def _instead(self, node: Node, users: Sequence[Node]) -> Node | None:
        """Returns the operand that replaced `node` in a user that still exists."""
        for user in users:
            for head in self.relation.forward(user.id):
                new = self.new[head]
                if new.opcode == user.opcode and len(new.operands) == len(user.operands):
                    name = new.operands[user.operands.index(node.id)]
                    operand = self.new.get(name)
                    if operand is not None and operand.opcode != "parameter":
                        return operand
        return None
