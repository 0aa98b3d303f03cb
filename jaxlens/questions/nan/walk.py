"""Walks from non-finite results back to the equations and inputs that they come from."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from jaxlens.ir.graph import Module, Node
from jaxlens.ir.jaxpr.refs import is_ref
from jaxlens.links.live_equations import Place, ValueFlow
from jaxlens.taps.executions import INSIDE, LOOPS, MOVES, NonFiniteExecution, Path

Seen = Mapping[Path, NonFiniteExecution]
Spot = tuple[Path, Place, Path]
"""A variable, the equations whose bodies lead to it, and the equation that reads it."""


@dataclass(frozen=True, slots=True)
class NonFiniteKind:
    """NaN, or infinities, of one run.

    Attributes:
        seen: The equations that had such elements.
        inputs: Indices of the program's inputs with such elements.
        literal: How such a number is written: "nan" or "inf".
    """

    seen: Seen
    inputs: frozenset[int]
    literal: str


@dataclass(frozen=True, slots=True)
class NonFiniteOrigins:
    """What non-finite values come from.

    Attributes:
        makers: Equations whose operands were finite, but for literals, in the order of execution.
        inputs: Indices of the program's inputs that are reached.
        way: The equations that it went through, in the order of execution.
    """

    makers: tuple[Path, ...] = ()
    inputs: frozenset[int] = frozenset()
    way: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Walker:
    """Walks through a program by its values.

    Attributes:
        module: The jaxpr.
        flow: Its dataflow.
        nodes: Its equations, by id.
        regions: The name of the body that each equation is in, by id.
    """

    module: Module
    flow: ValueFlow = field(init=False, repr=False)
    nodes: Mapping[str, Node] = field(init=False, repr=False)
    regions: Mapping[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "flow", ValueFlow(self.module))
        object.__setattr__(self, "nodes", {node.id: node for node in self.module.nodes()})
        bodies = self.module.regions.values()
        names = {node.id: body.name for body in bodies for node in body.nodes}
        object.__setattr__(self, "regions", names)

    def results(self, indices: Iterable[int], kind: NonFiniteKind) -> list[Spot]:
        """Returns results of the program by index, then what was written to a ref among inputs."""
        main = self.module.body()
        refs = [value.name for value in main.parameters if is_ref(value.type)]
        names = [(main.name, name) for name in (*main.results, *refs)]
        written = [
            (prefix, (body.name, write.operands[1]), ())
            for n in indices
            if n >= len(main.results)
            for body, write in self.flow.writes.get(names[n], ())
            for prefix in self.calls(body.name)
        ]
        held = [spot for spot in written if self.has(spot, kind)]
        return [*(((), names[n], ()) for n in indices), *held]

    def operands(self, path: Path, indices: Iterable[int] | None = None) -> list[Spot]:
        """Returns operands of an equation, by default all, and what it reads of a ref."""
        node = self.nodes[path[-1]]
        region = self.regions[path[-1]]
        places, whole = self.flow.written(self.module.regions[region], node)
        chosen = range(whole, len(node.operands)) if indices is None else indices
        spots = [(path[:-1], (region, node.operands[n]), path) for n in chosen]
        for place in places:
            spots += [(prefix, place, path) for prefix in self.calls(place[0])]
        return spots

    def calls(self, region: str) -> list[Path]:
        """Returns the equations whose bodies lead to a body, each way from the program to it."""
        if region == self.module.entry:
            return [()]
        return [
            (*prefix, node.id)
            for around, node in self.flow.callers[region]
            for prefix in self.calls(around.name)
        ]

    def walk(
        self,
        spots: Iterable[Spot],
        more: Callable[[Path, Path], Iterable[Spot]],
        keep: Callable[[Spot], bool] = lambda spot: True,
        enter: Callable[[Path], bool] = lambda path: True,
    ) -> Iterator[tuple[Spot, Path]]:
        """Yields values and what they come from, the near first, each with the equation that it is.

        The equation is () for a parameter and a literal. What binds a parameter is followed, and
        the results of bodies.

        Args:
            spots: The values.
            more: Returns what is followed from an equation without bodies, and from its reader.
            keep: Whether a value in another body is followed.
            enter: Whether an equation is yielded, and followed.
        """
        pending, visited = deque(spots), set[Spot]()
        while pending:
            spot = pending.popleft()
            if spot in visited:
                continue
            visited.add(spot)
            prefix, place, reader = spot
            made = self.flow.makers.get(place)
            if made is None:
                yield spot, ()
                pending += filter(keep, self.around(prefix, place, reader))
                continue
            path = (*prefix, made[1].id)
            if enter(path):
                yield spot, path
                inner = list(self.bodies(path, place[1], reader))
                pending += filter(keep, inner) if inner else more(path, reader)

    def back(self, spots: Iterable[Spot], kind: NonFiniteKind) -> NonFiniteOrigins:
        """Walks back from values along operands that had such elements."""
        seen = kind.seen
        makers, inputs, way = set[Path](), set[int](), set[Path]()

        def has(spot: Spot) -> bool:
            return self.has(spot, kind)

        def before(path: Path, reader: Path) -> list[Spot]:
            found = list(filter(has, self.before(path, kind)))
            if path in seen:
                way.add(path)
                if not found:
                    makers.add(path)
            moves = self.nodes[path[-1]].opcode in MOVES
            # It is not measured: what it moves is read by its reader.
            return [(*spot[:2], reader) for spot in found] if moves else found

        for (prefix, place, reader), path in self.walk(spots, before, has):
            index = self.flow.places.get(place)
            if not path and index is None:
                makers.add(reader)
            elif not path and index is not None and not prefix:
                inputs.add(index)
        known = [path for path in makers if path in seen]
        order = sorted(known, key=lambda path: self.order(path, seen))
        literals = sorted(makers - set(known))
        passed = sorted(way, key=lambda path: self.order(path, seen))
        return NonFiniteOrigins((*order, *literals), frozenset(inputs), tuple(passed))

    def before(self, path: Path, kind: NonFiniteKind) -> list[Spot]:
        """Returns the operands that an equation's elements can come from."""
        if self.nodes[path[-1]].opcode in MOVES:
            return self.operands(path, (0,))
        execution = kind.seen.get(path)
        chosen = execution.chosen if execution else None
        return self.operands(path, chosen or None)

    def has(self, spot: Spot, kind: NonFiniteKind) -> bool:
        """Whether a value had such elements before the equation that reads it had them first."""
        *_, reader = spot
        limit = self.order(reader, kind.seen) if reader in kind.seen else None

        def moved(path: Path, _: Path) -> list[Spot]:
            return self.operands(path, (0,)) if self.nodes[path[-1]].opcode in MOVES else []

        for (prefix, place, _), path in self.walk([spot], moved):
            index = self.flow.places.get(place)
            if path:
                if path in kind.seen and (limit is None or self.order(path, kind.seen) < limit):
                    return True
            elif index is None:
                if kind.literal in place[1].partition(":")[0]:
                    return True
            elif not prefix and index in kind.inputs:
                return True
        return False

    def all_inputs(self, spots: Iterable[Spot]) -> frozenset[int]:
        """Returns the indices of the program's inputs that values are computed from."""
        walked = self.walk(spots, lambda path, _: self.operands(path))
        ends = (place for (prefix, place, _), path in walked if not path and not prefix)
        return frozenset(self.flow.places[place] for place in ends if place in self.flow.places)

    def order(self, path: Path, seen: Seen) -> tuple[int, ...]:
        """Returns a key by which equations sort as they were executed first."""
        iterations = iter(seen[path].iterations)
        key: list[int] = []
        for step in path:
            key.append(int(step[1:]))
            loops = step != path[-1] and self.nodes[step].opcode in LOOPS
            key.append(next(iterations, 0) if loops else 0)
        return tuple(key)

    def bodies(self, path: Path, name: str, reader: Path) -> Iterator[Spot]:
        """Yields the results of an equation's bodies that are one of its results."""
        node = self.nodes[path[-1]]
        bodies = [self.flow.regions[n] for n in node.regions if n in self.flow.regions]
        bodies = bodies[:1] if node.opcode == "while" else bodies
        if node.opcode not in INSIDE or not bodies:
            return
        index = [value.name for value in node.results].index(name)
        for body in bodies:
            yield path, (body.name, body.results[index]), reader

    def around(self, prefix: Path, place: Place, reader: Path) -> Iterator[Spot]:
        """Yields what binds a parameter: operands of the call, and results of the body itself."""
        if not prefix or place not in self.flow.places:
            return
        caller = prefix[-1]
        for region, node in self.flow.callers[place[0]]:
            if node.id == caller:
                for bound in self.flow.bound(place, region, node):
                    inside = bound[0] in node.regions
                    yield (prefix if inside else prefix[:-1]), bound, reader
