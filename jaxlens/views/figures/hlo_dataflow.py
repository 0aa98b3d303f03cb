"""Simplifies an HLO module for drawing: edges connect a value's definition and uses directly.

HLO packs the operands of a loop into a tuple, unpacks it in the body, and gives every literal an
instruction. These instructions would clutter the drawing, so:
- `tuple`, `get-tuple-element` and `bitcast` become values of the instruction that defines them;
- scalar constants, and broadcasts of them, become literals of the instructions that use them;
- a computation of one instruction (the `add` of a reduction) is named in its caller's box, and a
  fusion of one instruction does not open.

    t = tuple(a, b);  g = get-tuple-element(t), index=1;  c = add(g, 1)      drawn: b -> c, "add 1"

`Plumbing.aside` has the ids of instructions without a box, by the id of the box that represents
them. The time is linear in the module's size.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from jaxlens.ir.graph import Module, Node, Region, Span, Type, Value
from jaxlens.program.lines import owners
from jaxlens.views.figures.hlo_grouping import SourcePath, together

# Attributes that do not affect the computed value, or name computations.
_SAID_ELSEWHERE = frozenset(
    "metadata backend_config frontend_attributes sharding statistics origin original_value calls "
    "to_apply condition body branch_computations true_computation false_computation "
    "called_computations select scatter id channel_id operand_precision "
    "control-predecessors".split()
)
_ALIASES = frozenset({"get-tuple-element", "bitcast", "tuple"})


class Plumbing:
    """A module's regions in simplified form, each made on demand.

    A fused computation is a separate program, so that the cost is that of the panels shown.

    Attributes:
        module: The module.
        aside: Ids of the other instructions that a box represents, by its own id; for inputs, by
            the name of the value ("param[0]"). It grows as regions are made.
        inner: The only instruction of the computation that an instruction applies (a reduction,
            or a fusion of one), by the id of the latter.
        fused: Computations that open in a fusion, in the module's order.
        whole: Every instruction by id.
        shown: The simplified instructions of the regions made so far, by id.
    """

    def __init__(self, module: Module, most: int) -> None:
        """Indexes an HLO module at any stage.

        Args:
            module: The module.
            most: A computation with more instructions than this is reordered so that it folds
                well (`hlo_grouping.py`).
        """
        self.module = module
        self._most = most
        self.whole = {node.id: node for node in module.nodes()}
        applied = list(_applied(module))
        self.inner = {node.id: only for node, only in applied}
        self.aside: dict[str, list[str]] = {}
        for node, only in applied:
            within = (n.id for r in (*node.regions, *only.regions) for n in module.regions[r].nodes)
            self.aside.setdefault(node.id, []).extend(within)
        self._names = _region_names(module)
        doors = {
            name
            for node in self.whole.values()
            if node.opcode == "fusion" and node.id not in self.inner
            for name in node.regions
        }
        self.fused = tuple(name for name in module.regions if name in doors)
        self.shown: dict[str, Node] = {}

    @cached_property
    def owners(self) -> Mapping[str, Span]:
        """The Python line that owns each instruction, by id."""
        return owners(self.module)

    def program(self, start: str) -> Module:
        """Returns a computation and its callees as a module, without fused computations.

        Ids are unchanged; regions of loops and branches are named by their role
        ("while body 2").
        """
        regions = {}
        for name in self._reached(start):
            plain = _Plain(self, self.module.regions[name], self._names)
            region = plain.region(self._most)
            regions[region.name] = region
            self.shown.update((node.id, node) for node in region.nodes)
        entry = self._names.get(start, start)
        return Module(self.module.name, self.module.stage, entry, regions, self.module.attrs)

    def _reached(self, start: str) -> list[str]:
        """Returns the computations reached from `start` without fusions, in the module's order."""
        reached, waiting = {start}, [start]
        while waiting:
            for node in self.module.regions[waiting.pop()].nodes:
                if node.opcode != "fusion" and node.id not in self.inner:
                    waiting += [name for name in node.regions if name not in reached]
                    reached.update(node.regions)
        return [name for name in self.module.regions if name in reached]


def _applied(module: Module) -> Iterator[tuple[Node, Node]]:
    """Yields instructions that apply a computation of one instruction, with the latter."""
    for node in module.nodes():
        if len(node.regions) != 1 or node.opcode in ("while", "conditional"):
            continue
        inner = [n for n in module.regions[node.regions[0]].nodes if n.opcode != "parameter"]
        if len(inner) == 1 and not any(module.regions[r].nodes[3:] for r in inner[0].regions):
            yield node, inner[0]


def _region_names(module: Module) -> dict[str, str]:
    """Returns the roles of computations of loops and branches; a shared one has its first role."""
    names: dict[str, str] = {}
    for node in module.nodes():
        # In HLO's order of called computations.
        if node.opcode == "while":
            roles = ["condition", "body"]
        elif node.opcode == "conditional":
            roles = [f"branch {n}:" for n in range(len(node.regions))]
            roles = ["if true", "if false"] if "true_computation" in node.attrs else roles
        else:
            continue
        for role, region in zip(roles, node.regions, strict=False):
            # The number is not shown; an id with blanks in it is no HLO name.
            names.setdefault(region, f"{node.opcode} {role} {len(names) + 1}")
    return names


@dataclass
class _Plain:
    """The state of simplifying one region."""

    plumbing: Plumbing
    whole: Region
    names: Mapping[str, str]
    value: dict[str, str] = field(default_factory=dict)  # the value that a name is replaced by
    parts: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of a tuple
    types: dict[str, Type] = field(default_factory=dict)
    maker: dict[str, str] = field(default_factory=dict)  # id of the box that makes a value
    used: dict[str, list[str]] = field(default_factory=dict)  # ids added to `aside` of each reader
    extra: dict[str, dict[str, Type]] = field(default_factory=dict)  # values by maker
    inputs: frozenset[str] = frozenset()

    def region(self, most: int) -> Region:
        """Returns the simplified region."""
        self.inputs = frozenset(value.name for value in self.whole.parameters)
        shown: list[tuple[Node, tuple[str, ...]]] = []
        for node in self.whole.nodes:
            self.types[node.id] = node.type
            if node.opcode == "parameter" and node.id in self.inputs:
                self.maker[node.id] = node.id
            elif node.opcode in _ALIASES and self._alias(node):
                pass
            elif not self._literal(node):
                if ids := self._ids(node.operands):
                    self.plumbing.aside.setdefault(node.id, []).extend(ids)
                shown.append((node, tuple(chain.from_iterable(map(self._flat, node.operands)))))
                self.maker[node.id] = node.id
        results = tuple(chain.from_iterable(map(self._flat, self.whole.results)))
        used = {*self.inputs, *results}
        for _, reads in shown:
            used.update(name for name in reads if name in self.maker)
        nodes = tuple(self._nodes(shown, used, most))
        name = self.names.get(self.whole.name, self.whole.name)
        return Region(name, tuple(self._parameters(used)), nodes, results, self.whole.kind)

    def _of(self, name: str) -> str:
        return self.value.get(name, name)

    def _alias(self, node: Node) -> bool:
        """Replaces an instruction by its source value; returns False for a bitcast literal."""
        if node.opcode == "tuple":
            self.parts[node.id] = tuple(map(self._of, node.operands))
            self.used[node.id] = [node.id, *self._ids(node.operands)]
            return True
        source = self._of(node.operands[0]) if node.operands else ""
        if node.opcode == "bitcast" and source not in self.maker:
            return False
        if node.opcode == "get-tuple-element":
            index = node.attrs.get("index", "0")
            if source in self.parts:
                whole = self.parts[source]
                self.value[node.id] = whole[int(index)] if int(index) < len(whole) else source
                self.used[node.id] = [node.id]
                return True
            part = f"{source}[{index}]"
        else:
            part = node.id
        box = self.maker.get(source, source)
        if node.opcode == "bitcast" and box in self.inputs:
            self.value[node.id] = source  # an input has one box, with or without bitcasts
            self.plumbing.aside.setdefault(source, []).append(node.id)
            return True
        self.plumbing.aside.setdefault(part if box in self.inputs else box, []).append(node.id)
        self.value[node.id] = part
        self.types[part] = node.type
        self.maker[part] = box
        self.extra.setdefault(box, {})[part] = node.type
        return True

    def _literal(self, node: Node) -> bool:
        """Replaces a scalar constant, or a broadcast of one, by a literal; False for others."""
        text = ""
        if node.opcode == "constant" and node.type.dtype and not node.type.shape:
            text = node.attrs.get("literal", "")
        elif node.opcode == "broadcast" and node.operands:
            source = self._of(node.operands[0])
            text = source.rpartition(":")[0] if source not in self.maker else ""
        if not text or node.id in self.whole.results:
            return False
        self.value[node.id] = f"{text}:{node.type}"
        self.used[node.id] = [node.id, *self._ids(node.operands)]
        return True

    def _ids(self, names: Sequence[str]) -> list[str]:
        return [id for name in names for id in self.used.get(name, ())]

    def _flat(self, name: str) -> Iterator[str]:
        """Yields a value, or the values of a tuple, however nested."""
        pending = [self._of(name)]
        while pending:
            value = pending.pop()
            if value in self.parts:
                pending.extend(reversed(self.parts[value]))
            else:
                yield value

    def _nodes(
        self, shown: Sequence[tuple[Node, tuple[str, ...]]], used: Collection[str], most: int
    ) -> Iterator[Node]:
        """Yields the remaining instructions, regrouped if there are more than `most`."""
        if len(shown) <= most:
            for node, reads in shown:
                yield self._node(node, reads, used, SourcePath(node.scope, node.spans))
            return
        nodes, values = [node for node, _ in shown], [reads for _, reads in shown]
        for n, origin in together(nodes, values, self.maker, self.plumbing.module):
            yield self._node(*shown[n], used, origin)

    def _node(
        self, node: Node, reads: tuple[str, ...], used: Collection[str], origin: SourcePath
    ) -> Node:
        """Returns the instruction with the values in `used` as its results."""
        parts = self.extra.get(node.id, {})
        results = [Value(part, kind) for part, kind in parts.items() if part in used]
        if node.id in used or not results:
            results.insert(0, Value(node.id, node.type))
        attrs = {k: v for k, v in node.attrs.items() if k not in _SAID_ELSEWHERE}
        regions: tuple[str, ...] = ()
        if node.opcode == "fusion":  # so that only fusions of the same opcodes are equal
            inside = (n.opcode for r in node.regions for n in self.plumbing.module.regions[r].nodes)
            attrs["holds"] = " ".join(inside)
        elif node.id not in self.plumbing.inner:
            regions = tuple(self.names.get(name, name) for name in node.regions)
        return Node(
            node.id, node.opcode, reads, tuple(results), attrs, regions, origin.scope, origin.spans
        )

    def _parameters(self, used: set[str]) -> Iterator[Value]:
        """Yields the parameters; of a tuple, the elements that are used."""
        for value in self.whole.parameters:
            parts = self.extra.get(value.name, {})
            if value.type.dtype or not parts:
                yield value
            yield from (Value(part, kind) for part, kind in parts.items() if part in used)
