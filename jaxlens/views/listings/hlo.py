"""Renders an HLO module as lines in XLA's notation, each computation under its title.

Metadata, layouts and other long parts are folded (`hlo_pieces.py`).
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial

from jaxlens.ir.facts import Input
from jaxlens.ir.graph import Module, Node, Region, Value
from jaxlens.ir.hlo import instructions as program_instructions
from jaxlens.program.lines import owners
from jaxlens.render.document import Line, Listing, Piece
from jaxlens.render.html.lazy_lines import ROOT, WrittenLine, listed
from jaxlens.views.listings.hlo_folds import MANY, SHOWN, runs
from jaxlens.views.listings.hlo_pieces import MARKED, behind_text, instruction_text, type_text
from jaxlens.views.listings.lines_by_id import LinesById

LIMIT = 2000
_CALLERS = 3  # callers named in a computation's title
_IN_GROUP = ("calls=", "kind=")  # a diff lists the fused instructions under the fusion


def listing(
    module: Module, limit: int = LIMIT, inputs: Sequence[Input] = (), *, brief: bool = False
) -> Listing:
    """Returns the listing of a whole module.

    Args:
        module: An HLO module at any stage.
        limit: Maximum number of lines before `more`.
        inputs: The inputs of its program.
        brief: Whether to leave out what is folded; see `Plan` too.
    """
    plan = Plan(module, brief, inputs)
    head = min(limit, plan.in_sight)
    option = f"%%hlo --stage {module.stage}" if module.stage in ("hlo", "optimized") else "--full"
    note = f"Metadata and layouts are left out: {option} has them." if brief else ""
    return listed(module.stage, plan.total, head, plan.lines, note, MARKED)


def names_of(module: Module, inputs: Sequence[Input] = ()) -> Mapping[str, str]:
    """Returns the names of inputs by parameter, where the parameter's own says less (`x.1`)."""
    names = program_instructions.input_names(module, inputs)
    return {id: name for id, name in names.items() if name != id.partition(".")[0]}


class Plan:
    """The order of lines in the listing of a module.

    Args:
        module: HLO.
        brief: Whether to put a computation's parameters into its title, as XLA does too, and the
            fused instruction of a fusion that has only one on that fusion's line.
        inputs: The inputs of its program.

    Attributes:
        total: Number of lines.
        in_sight: Number of lines that no other folds.
    """

    def __init__(self, module: Module, brief: bool = False, inputs: Sequence[Input] = ()) -> None:
        self._module, self._brief, self._inputs = module, brief, inputs
        self._wrapped = _wrapped(module) if brief else {}
        shown = [r for r in module.regions.values() if r.name not in self._wrapped]
        self._runs = [(r, list(runs(self._instructions(r), "".join(r.results[:1])))) for r in shown]
        every = [run for _, parts in self._runs for run in parts]
        self.in_sight = 3 * len(shown) - 1 + sum(1 if r.fold else len(r.parts) for r in every)
        self.total = self.in_sight + sum(len(run.parts) for run in every if run.fold)

    @cached_property
    def _owners(self) -> dict[str, str]:
        return {id: str(span) for id, span in owners(self._module).items()}

    @cached_property
    def _names(self) -> Mapping[str, str]:
        return names_of(self._module, self._inputs)

    @cached_property
    def _titles(self) -> Mapping[str, Line]:
        return titles(self._module, self._brief)

    def _instructions(self, region: Region) -> Sequence[Node]:
        """Returns the instructions that have a line."""
        if not self._brief or region.name == self._module.entry:
            return region.nodes
        return [node for node in region.nodes if node.opcode != "parameter"]

    def lines(self) -> Iterator[Line | WrittenLine]:
        """Yields the lines."""
        owner_of, wrapped, names = self._owners, self._wrapped, self._names
        brief = self._brief
        for number, (region, parts) in enumerate(self._runs):
            if number:
                yield Line(())
            yield self._titles[region.name]
            results = frozenset(region.results)
            for run in parts:
                if run.fold:
                    yield run.fold
                for part in run.parts:
                    if isinstance(part, Line):
                        yield part
                        continue
                    inner = wrapped.get(part.regions[0]) if part.regions else None
                    root = ROOT if part.id in results else ""
                    behind = behind_text(inner) if inner else ""
                    text = f"{root}{instruction_text(part, names, brief)}{behind}"
                    yield WrittenLine(text, part.id, 1, owner_of.get(part.id, ""))
            yield Line((Piece("}"),))


def instruction(
    node: Node, owner: str, names: Mapping[str, str], root: bool = False, brief: bool = False
) -> Line:
    """Returns an instruction's line: `name = type opcode(operands), attributes`."""
    text = f"{ROOT if root else ''}{instruction_text(node, names, brief)}"
    return Line(MARKED.pieces(text), node.id, 0, owner)


def instructions(
    module: Module, inputs: Sequence[Input] = (), *, brief: bool = False
) -> Mapping[str, Line]:
    """Returns the line of every instruction, by id; arguments as of `listing`."""
    line = _brief if brief else instruction
    return LinesById(module, partial(line, names=names_of(module, inputs)))


def _brief(node: Node, owner: str, names: Mapping[str, str]) -> Line:
    line = instruction(node, owner, names, brief=True)
    pieces = (p for p in line.pieces if not p.text.lstrip(", ").startswith(_IN_GROUP))
    return Line(tuple(pieces), line.id, line.indent, line.line)


def titles(module: Module, brief: bool = True) -> Mapping[str, Line]:
    """Returns the title of each computation, by name; with its parameters if it is brief."""
    callers: dict[str, list[str]] = {}
    for node in module.nodes():
        for name in node.regions:
            callers.setdefault(name, []).append(node.id)
    made = {}
    for name, region in module.regions.items():
        entry = name == module.entry
        inputs = region.parameters if brief and not entry else ()
        made[name] = _title(region, entry, inputs, callers.get(name, []))
    return made


def _wrapped(module: Module) -> dict[str, Node]:
    """Returns the instruction of each fused computation that has only one, by computation."""
    wrapped: dict[str, Node] = {}
    for node in module.nodes():
        if node.opcode == "fusion" and node.regions:
            name = node.regions[0]
            inner = [n for n in module.regions[name].nodes if n.opcode != "parameter"]
            if len(inner) == 1 and not inner[0].regions:
                wrapped[name] = inner[0]
    return wrapped


def _title(region: Region, entry: bool, inputs: Sequence[Value], callers: list[str]) -> Line:
    """Returns a computation's title: `fused_computation (p: f32[4]) {  // of fusion.3`."""
    pieces = [Piece("ENTRY ", "keyword")] if entry else []
    pieces.append(Piece(f"{region.name} ", "keyword"))
    named = inputs if len(inputs) < MANY else inputs[:SHOWN]
    for number, value in enumerate(named):
        pieces.append(Piece(f"{', ' if number else '('}{value.name}: "))
        pieces += MARKED.pieces(type_text(value.type, brief=True))
    more = f" and {len(inputs) - len(named):,} more" if len(named) < len(inputs) else ""
    pieces += [Piece(f"{more}) ")] if inputs else []
    pieces.append(Piece("{"))
    if callers:
        more = f" and {len(callers) - _CALLERS:,} more" if len(callers) > _CALLERS else ""
        pieces.append(Piece(f"  // of {', '.join(callers[:_CALLERS])}{more}", "comment"))
    return Line(tuple(pieces))
