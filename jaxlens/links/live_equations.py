"""The equations that the program's results depend on; JAX lowers no others.

Operands and results of an equation with bodies are matched with the bodies' variables by position.
If a result of a `scan` is unused, the equations of the body that only compute this result are dead.
If the body reads its carry, the equations that compute the next carry are live:

    c, y = scan {c, x -> c2 = add c x; y = sin x} ...    only c is returned: sin is dead
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain

from jaxlens.ir.graph import Module, Node, Region
from jaxlens.ir.jaxpr.bodies import loop_parts, operand, running
from jaxlens.ir.jaxpr.refs import READS, WRITES

Place = tuple[str, str]
"""A variable: the name of its region, and its own name."""


def live_equations(jaxpr: Module) -> frozenset[str]:
    """Returns the ids of the equations that a result or an effect depends on."""
    flow = ValueFlow(jaxpr)
    ids: set[str] = set()
    visited: set[Place] = set()
    main = jaxpr.body()
    pending = [(main.name, name) for name in main.results]
    for region in reversed(list(flow.regions.values())):  # callees before callers
        for node in region.nodes:
            # Whether the equation, or one in its bodies, has an effect.
            acts = not node.results or "callback" in node.opcode or node.opcode in WRITES
            if node.regions:
                bodies = (flow.regions[name].nodes for name in running(node))
                acts = any(inner.id in ids for inner in chain.from_iterable(bodies))
            if acts:
                ids.add(node.id)
                pending += flow.control(region, node) if node.regions else flow.whole(region, node)
    while pending:
        place = pending.pop()
        if place in visited:
            continue
        visited.add(place)
        pending += flow.outer(place)
        maker = flow.makers.get(place)
        if maker is None:
            continue
        region, node = maker
        if node.regions:
            pending += flow.behind(region, node, place[1])
        elif node.id not in ids:  # all its results depend on the same
            pending += flow.whole(region, node)
        ids.add(node.id)
    return frozenset(ids)


class ValueFlow:
    """The dataflow between variables, across bodies.

    Attributes:
        regions: The bodies that an execution can reach, by name.
        callers: The regions and equations that execute a body, by its name.
        makers: The equation that defines a variable.
        places: The index of a body's parameter.
        writes: The equations that write a ref, by where it was made.
    """

    def __init__(self, jaxpr: Module) -> None:
        names = {jaxpr.entry}  # of the bodies that an execution can reach
        for region in jaxpr.regions.values():  # callers before callees
            if region.name in names:
                names.update(n for node in region.nodes if node.regions for n in running(node))
        self.regions = {name: region for name, region in jaxpr.regions.items() if name in names}
        self.callers: defaultdict[str, list[tuple[Region, Node]]] = defaultdict(list)
        self.makers: dict[Place, tuple[Region, Node]] = {}
        self.places: dict[Place, int] = {}
        for region in self.regions.values():
            for index, value in enumerate(region.parameters):
                self.places[region.name, value.name] = index
            for node in region.nodes:
                for value in node.results:
                    self.makers[region.name, value.name] = region, node
                for name in running(node):
                    self.callers[name].append((region, node))
        self.writes: defaultdict[Place, list[tuple[Region, Node]]] = defaultdict(list)
        for region in self.regions.values():
            for node in region.nodes:
                if node.opcode in WRITES:
                    for origin in self._origins((region.name, node.operands[0])):
                        self.writes[origin].append((region, node))

    def _origins(self, ref: Place) -> set[Place]:
        """Returns the variables that a ref was first: inputs, and results of equations."""
        pending, visited, origins = [ref], set[Place](), set[Place]()
        while pending:
            place = pending.pop()
            if place not in visited:
                visited.add(place)
                around = list(self.outer(place))
                pending += around
                origins |= set() if around else {place}
        return origins

    def written(self, region: Region, node: Node) -> tuple[list[Place], bool]:
        """Returns what was written to the ref that an equation reads.

        Returns:
            The variables, and whether nothing is left of what the ref held before: of what stands
            in one body, the last write of the whole ref is taken, and those after it.
        """
        if not self.writes or node.opcode not in READS:
            return [], False
        ref = region.name, node.operands[0]
        writes = [w for origin in self._origins(ref) for w in self.writes.get(origin, ())]
        here = [w for body, w in writes if body is region and w.operands[0] == ref[1]]
        before = [w for w in here if _number_of(w) < _number_of(node)]
        whole = [w for w in before if w.results and w.results[0].type.shape == self._shape(ref)]
        if whole:
            last = _number_of(whole[-1])
            own = {w.id for w in before if _number_of(w) >= last}
            writes = [(body, w) for body, w in writes if body is not region or w.id in own]
        return list(dict.fromkeys((body.name, w.operands[1]) for body, w in writes)), bool(whole)

    def _shape(self, place: Place) -> tuple[int | str, ...]:
        region, node = self.makers.get(place, (self.regions[place[0]], None))
        values = region.parameters if node is None else node.results
        return next(value.type.shape for value in values if value.name == place[1])

    def whole(self, region: Region, node: Node) -> list[Place]:
        """Returns the operands of an equation, what it reads of a ref, and its bodies' results."""
        places, whole = self.written(region, node)
        places += [(region.name, name) for name in node.operands[whole:]]
        for inner in running(node):
            places += [(inner, name) for name in self.regions[inner].results]
        return places

    def behind(self, region: Region, node: Node, name: str) -> Iterator[Place]:
        """Yields the variables that one result of an equation depends on."""
        bodies = [self.regions[inner] for inner in running(node)]
        bodies = bodies[:1] if node.opcode == "while" else bodies
        if not bodies or any(len(body.results) != len(node.results) for body in bodies):
            yield from self.whole(region, node)
            return
        index = [value.name for value in node.results].index(name)
        for body in bodies:
            yield body.name, body.results[index]
        yield from self.control(region, node)

    def control(self, region: Region, node: Node) -> Iterator[Place]:
        """Yields the variables that decide whether the bodies run, and how often."""
        if node.opcode == "while":
            for result in self.regions[node.regions[-1]].results:
                yield node.regions[-1], result
        if node.opcode == "cond":
            yield region.name, node.operands[0]

    def outer(self, value: Place) -> Iterator[Place]:
        """Yields the variables that bind a body's parameter: operands, and a loop's carry."""
        for region, node in self.callers[value[0]] if value in self.places else ():
            yield from self.bound(value, region, node)

    def bound(self, value: Place, region: Region, node: Node) -> Iterator[Place]:
        """Yields the variables that bind a body's parameter in one call of the body."""
        index, body = self.places[value], self.regions[value[0]]
        testing = node.opcode == "while" and value[0] == node.regions[-1]
        parts = loop_parts(node)
        first = parts.tests if testing else parts.consts
        # Operands are counted from the end, where a body's parameters have the same order.
        place = index if testing and index < first else operand(node, index, len(body.parameters))
        if -len(node.operands) <= place < len(node.operands):
            yield region.name, node.operands[place]
        looped = self.regions[running(node)[0]]
        if first <= index < first + parts.carry and index - first < len(looped.results):
            yield looped.name, looped.results[index - first]


def _number_of(node: Node) -> int:
    return int(node.id[1:])  # in the order of execution, bodies in place
