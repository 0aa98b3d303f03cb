"""Builds the rows of the program after a pass, with removed instructions at their old position.

Rows are matched by identity (`links/match/instruction_fates.py`), so an instruction that was
renamed, moved into a fusion or given another layout is one row and not a removal and an addition.
Parameters of computations are in the computations' titles; layouts and metadata are left out.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from jaxlens.ir.graph import Module, Node, Region
from jaxlens.links.match.instruction_fates import Fate, ProgramChange
from jaxlens.render.document import Line, PassRow
from jaxlens.views.listings import hlo as hlo_lines
from jaxlens.views.listings.lines_by_id import LinesById

LineCache = dict[tuple[str, str, bool], Line]
"""Cached lines by printed text, owner, and whether it is a root; dumps repeat most lines."""


def rows(change: ProgramChange, cache: LineCache | None = None) -> tuple[PassRow, ...]:
    """Returns the rows of the program after a change, with those of removed instructions.

    A removed instruction is before the one that followed it. Rows without an id are titles of
    computations.

    Args:
        change: The change between two programs of one compile.
        cache: Cache of lines, shared between changes.
    """
    return tuple(_Side(change, {} if cache is None else cache).rows())


def whole(module: Module, cache: LineCache) -> tuple[PassRow, ...]:
    """Returns the rows of a whole program, without a comparison."""
    lines, titles = _lines(module, cache), hlo_lines.titles(module)
    return tuple(
        PassRow("same", line)
        for name, region in module.regions.items()
        for line in (_title(titles[name]), *(lines[n.id] for n in _shown(module, region)))
    )


def _lines(module: Module, cache: LineCache) -> Mapping[str, Line]:
    roots = {name for region in module.regions.values() for name in region.results}

    names = hlo_lines.names_of(module)

    def line(node: Node, owner: str) -> Line:
        root = node.id in roots
        key = node.text or node.id, owner, root
        shown = cache.get(key)
        if shown is None or shown.id != node.id:
            shown = cache[key] = hlo_lines.instruction(node, owner, names, root, brief=True)
        return shown

    return LinesById(module, line)


def _title(line: Line) -> Line:
    """Returns a computation's title without its brace: these rows have no closing one."""
    return Line(tuple(piece for piece in line.pieces if piece.text != "{"))


def _shown(module: Module, region: Region) -> Sequence[Node]:
    """Returns the instructions that have a row."""
    if region.name == module.entry:
        return region.nodes
    return [node for node in region.nodes if node.opcode != "parameter"]


def _homes(module: Module) -> dict[str, str]:
    """Returns the name of each instruction's computation, by id."""
    return {n.id: name for name, region in module.regions.items() for n in region.nodes}


class _Side:
    """Merges both programs of a change row by row."""

    def __init__(self, change: ProgramChange, cache: LineCache) -> None:
        self.change = change
        self.before, self.after = change.before, change.after
        self.old = {node.id: node for node in self.before.nodes()}
        self.left, self.right = _lines(self.before, cache), _lines(self.after, cache)
        self.homes, self.places = _homes(self.before), _homes(self.after)
        self.origins = origins(change)
        self.partners = self._partners()  # computation before by computation after

    def rows(self) -> Iterator[PassRow]:
        """Yields the computations after, then the removed ones with a removed instruction."""
        titles = hlo_lines.titles(self.after)
        for name, region in self.after.regions.items():
            partner = self.partners.get(name, "")
            mark = "same" if partner == name else "renamed" if partner else "added"
            note = f"was {partner}" if mark == "renamed" else ""
            yield PassRow(mark, _title(titles[name]), note=note)
            first, above, below = self._removed_from(partner, name)
            yield from first
            for node in _shown(self.after, region):
                yield from above.get(node.id, ())
                yield self._row(node, partner)
                yield from below.get(node.id, ())
        titles = hlo_lines.titles(self.before)
        partners = set(self.partners.values())
        for name in self.before.regions:
            removed = [] if name in partners else self._removed_from(name, "")[0]
            if removed:
                yield PassRow("removed", _title(titles[name]), gone=True)
                yield from removed

    def _partners(self) -> dict[str, str]:
        """Returns the computation before of each computation after.

        Computations match by name. A new one matches the removed one from which most of its
        instructions come, so that a renamed computation is not a removal and an addition:

            before  region_0: a b c     after  fused.1: a b d     fused.1 was region_0 (2 of 3)
        """
        partners = {name: name for name in self.after.regions if name in self.before.regions}
        votes: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for id, place in self.places.items():
            fate = self.origins.get(id)
            home = self.homes[fate.id] if fate else ""
            if home and place not in partners and home not in partners:
                votes[place][home] += 1
        paired: set[str] = set()
        for place, tally in votes.items():
            home = tally.most_common(1)[0][0]
            if home not in paired:
                partners[place] = home
                paired.add(home)
        return partners

    def _removed_from(
        self, home: str, place: str
    ) -> tuple[list[PassRow], dict[str, list[PassRow]], dict[str, list[PassRow]]]:
        """Returns the rows removed from a computation: at its start, and above and below others.

        `above` and `below` are by the id of the row that remains: a row that it replaces is above
        it, and rows removed after it are below.
        """
        first: list[PassRow] = []
        above: defaultdict[str, list[PassRow]] = defaultdict(list)
        below: defaultdict[str, list[PassRow]] = defaultdict(list)
        last = first
        for node in _shown(self.before, self.before.regions[home]) if home else ():
            fate = self.change.fates[node.id]
            image = successor(fate)  # the instruction at the row's position after; "" for none
            stays = fate.name in ("same", "rewritten") or image == fate.id
            if not stays or self.places.get(image) != place:
                image = ""
            if fate.name != "same" and not (fate.name == "fused" and image):
                note = _into(fate) if fate.name == "fused" else fate.note
                note = "" if fate.name == "rewritten" else note  # the row below has it
                row = PassRow(fate.name, self.left[node.id], gone=True, note=note)
                (above[image] if image else last).append(row)
            if image:
                last = below[image]
        return first, above, below

    def _row(self, node: Node, partner: str) -> PassRow:
        """Returns the row of an instruction of the program after."""
        line = self.right[node.id]
        fate = self.origins.get(node.id)
        if fate is None:
            return PassRow("added", line)
        was = "" if fate.id == node.id else f"was {fate.id}"
        if fate.name == "fused" and fate.id == node.id and self.homes[fate.id] == partner:
            return PassRow("fused", line, note=f"here still, and {_into(fate)}")
        if fate.name == "fused":
            again = f"in {fate.copies:,} places" if fate.copies > 1 else ""
            return PassRow("fused", line, note=", ".join(filter(None, (was, again))))
        if successor(fate) != node.id:
            return PassRow("added", line, note=f"a copy of {fate.id}")
        if fate.name == "rewritten":
            return PassRow("rewritten", line, note=fate.note)
        if self.homes[fate.id] != partner:
            moved = f"was in {self.homes[fate.id]}"
            return PassRow("moved", line, note=", ".join(filter(None, (was, moved))))
        if was:
            return PassRow("renamed", line, note=was)
        note = _adjusted(self.old[fate.id], node)
        return PassRow("adjusted" if note else "same", line, note=note)


def origins(change: ProgramChange) -> dict[str, Fate]:
    """Returns, by id of an instruction after, its fate before: of the same id, else the first."""
    origins: dict[str, Fate] = {}
    for fate in change.fates.values():
        for head in fate.into:
            if head == fate.id:
                origins[head] = fate
            else:
                origins.setdefault(head, fate)
    return origins


def successor(fate: Fate) -> str:
    """Returns the instruction that a fate leads to: of the same id, else the first; "" for none."""
    if not fate.into:
        return ""
    return fate.id if fate.id in fate.into else fate.into[0]


def _into(fate: Fate) -> str:
    """Returns the fusions of a fate: `into add_fusion and 2 more`."""
    fusions = [name for name in dict.fromkeys(fate.fusions) if name]
    more = f" and {len(fusions) - 1:,} more" if len(fusions) > 1 else ""
    return f"into {fusions[0]}{more}" if fusions else ""


def _adjusted(old: Node, new: Node) -> str:
    """Returns how the text of an unchanged value differs: layout, operand or attributes."""
    if old.text and old.text == new.text:
        return ""
    if old.type != new.type:
        layouts = old.type.layout, new.type.layout
        return f"layout {layouts[1]}, was {layouts[0]}" if all(layouts) else "another layout"
    if old.operands != new.operands and len(old.operands) == len(new.operands):
        pairs = zip(old.operands, new.operands, strict=True)
        was, now = next((was, now) for was, now in pairs if was != now)
        return f"reads {now}, was {was}"
    return changed_attributes(old, new)


def changed_attributes(old: Node, new: Node) -> str:
    """Returns `another dimensions, window` for the attributes that differ; "" for none."""
    keys = [key for key in {**old.attrs, **new.attrs} if old.attrs.get(key) != new.attrs.get(key)]
    return f"another {', '.join(keys)}" if keys else ""
