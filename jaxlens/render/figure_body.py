"""One region made ready to draw: who makes each value, who reads it last, and its folding."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from jaxlens.ir.graph import Module, Node, Region
from jaxlens.render.figure_fold import Folding, Place, Run, Step, call_path, place_key

PARAMETER = -1  # "made by step -1": it comes in


@dataclass(frozen=True)
class Body:
    """A region and what drawing it needs; made by `bodies_of`.

    Attributes:
        region: The region.
        nodes: Its nodes, without those that only stand for parameters: the steps.
        maker: Step that makes each value, `PARAMETER` for what comes in.
        types: Printed type of each value.
        last: Last step that reads each value; `len(nodes)` for a result of the region.
        names: What inputs are called, by value.
        results: What results are called, in order; "" for no name of their own.
        constants: Parameters that are captured constants.
        kinds: A number per region that equal regions share.
        most: Most boxes in one of its panels.
    """

    region: Region
    nodes: tuple[Node, ...]
    maker: Mapping[str, int]
    types: Mapping[str, str]
    last: Mapping[str, int]
    names: Mapping[str, str]
    results: tuple[str, ...]
    constants: frozenset[str]
    kinds: "RegionKinds"
    most: int

    @cached_property
    def folding(self) -> Folding:
        """The steps, ready to be cut; only long regions ask for it."""
        # Many nodes share their place; equal parts of two paths become one object.
        known: dict[tuple[str, int], tuple[tuple[Place, ...], int]] = {}
        parts: dict[Place, Place] = {}
        steps = []
        for node in self.nodes:
            place = known.get((node.scope, id(node.spans)))
            if place is None:
                path = tuple(parts.setdefault(part, part) for part in call_path(node))
                key = place_key(node.scope), *map(place_key, node.spans)
                place = known[node.scope, id(node.spans)] = path, self.kinds.intern(key)
            kind = self.kinds.number(node, self, place[1])
            reads = tuple(self.maker.get(name, PARAMETER) for name in node.operands)
            steps.append(Step(kind, place[0], reads))
        return Folding(steps)

    @property
    def folded(self) -> bool:
        """Whether it is too long to be drawn step by step."""
        return len(self.nodes) > self.most

    def top(self) -> list[Run]:
        """The runs of its own panel."""
        whole = Run(0, len(self.nodes))
        if not self.folded:
            return [Run(n, n + 1) for n in range(len(self.nodes))]
        return self.folding.children(whole, self.most)

    @property
    def title(self) -> str:
        """The region's name, without the number that makes it unique."""
        return plain(self.region.name)


def plain(region: str) -> str:
    """`relu` for `relu 2`; branches keep their number."""
    return region if region.startswith("branch ") else re.sub(r" \d+$", "", region)


class RegionKinds:
    """Numbers for equations and regions: equal ones have the same, whatever values are called."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._numbers: dict[object, int] = {}
        self._regions: dict[str, int] | None = None

    def number(self, node: Node, body: Body, place: int) -> int:
        """The number of an equation: opcode, attributes, literals, types, bodies and place."""
        literals = tuple(
            "" if name in body.maker else name for name in node.operands
        )  # fmt: skip
        return self.intern((place, literals, self._shape(node)))

    def _shape(self, node: Node) -> tuple[object, ...]:
        attrs = tuple(node.attrs.items()) if not node.regions else self._outer_attrs(node)
        inner = tuple(self._of_regions()[name] for name in node.regions)
        return node.opcode, attrs, inner, tuple([value.type for value in node.results])

    def _outer_attrs(self, node: Node) -> tuple[tuple[str, str], ...]:
        """Attributes that do not name a body: bodies are compared, not their names."""
        return tuple(
            (key, value) for key, value in node.attrs.items()
            if not any(name in value for name in node.regions)
        )  # fmt: skip

    def _of_regions(self) -> Mapping[str, int]:
        if self._regions is None:
            self._regions = {}
            for name, region in reversed(list(self._module.regions.items())):
                self._regions[name] = self._region_number(region)
        return self._regions

    def _region_number(self, region: Region) -> int:
        place: dict[str, object] = {value.name: n for n, value in enumerate(region.parameters)}
        rows: list[object] = [tuple(value.type for value in region.parameters)]
        for row, node in enumerate(region.nodes):
            reads = tuple(place.get(name, name) for name in node.operands)
            # A callee stands after its callers, so its number is known here.
            rows.append((reads, self._shape(node)))
            place.update({value.name: (row, n) for n, value in enumerate(node.results)})
        rows.append(tuple(place.get(name, name) for name in region.results))
        return self.intern(tuple(rows))

    def intern(self, key: object) -> int:
        """A number that equal keys share."""
        return self._numbers.setdefault(key, len(self._numbers))


def bodies_of(
    module: Module, max_boxes: int, inputs: Sequence[str], outputs: Sequence[str]
) -> Mapping[str, Body]:
    """Every region of the module, ready to draw; arguments as those of `figure`."""
    kinds = RegionKinds(module)
    constants = frozenset(module.attrs.get("constants", "").split())
    words: dict[int, str] = {}
    made = {}
    for name, region in module.regions.items():
        entry = name == module.entry
        shown = _input_names(region, inputs, constants) if entry else {}
        given = tuple(outputs) if entry and len(outputs) == len(region.results) else ()
        here = constants if entry else frozenset()
        made[name] = _body(region, shown, given, here, kinds, max_boxes, words)
    return made


def _input_names(
    region: Region, inputs: Sequence[str], constants: frozenset[str]
) -> dict[str, str]:  # fmt: skip
    taken = [value.name for value in region.parameters if value.name not in constants]
    return dict(zip(taken, inputs, strict=True)) if len(inputs) == len(taken) else {}


def _body(
    region: Region,
    names: Mapping[str, str],
    results: tuple[str, ...],
    constants: frozenset[str],
    kinds: RegionKinds,
    max_boxes: int,
    words: dict[int, str],
) -> Body:
    parameters = {value.name for value in region.parameters}
    nodes = tuple(
        node for node in region.nodes if node.opcode != "parameter" or node.name not in parameters
    )
    maker = dict.fromkeys(parameters, PARAMETER)
    last: dict[str, int] = {}
    types: dict[str, str] = {}
    for value in region.parameters:
        types[value.name] = str(value.type)
    for step, node in enumerate(nodes):
        last.update(dict.fromkeys(node.operands, step))
        for value in node.results:
            maker[value.name] = step
            word = words.get(id(value.type))
            if word is None:  # readers share types, and printing one takes longer than looking
                word = words[id(value.type)] = str(value.type)
            types[value.name] = word
    last.update(dict.fromkeys(region.results, len(nodes)))
    return Body(
        region, nodes, maker, types, last, names, results, constants, kinds,
        max_boxes,
    )  # fmt: skip
