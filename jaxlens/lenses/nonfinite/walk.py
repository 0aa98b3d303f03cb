"""Walks from non-finite results back to the equations and inputs that they come from."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from jaxlens.ir.graph import Module, Node
from jaxlens.ir.run.nonfinite import NonFiniteExecution, Path
from jaxlens.links.live_equations import Place, ValueFlow

_LAST_BIT = 30  # stands for all operands from this one on
LOOPS = ("scan", "while")

Seen = Mapping[Path, NonFiniteExecution]
Spot = tuple[Path, Place, Path]
"""A variable, the equations whose bodies lead to it, and the equation that reads it."""


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
    """

    module: Module
    flow: ValueFlow = field(init=False, repr=False)
    nodes: Mapping[str, Node] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "flow", ValueFlow(self.module))
        object.__setattr__(self, "nodes", {node.id: node for node in self.module.nodes()})

    def results(self, indices: Iterable[int]) -> list[Spot]:
        """Returns results of the program by index."""
        main = self.module.body()
        return [((), (main.name, main.results[n]), ()) for n in indices]

    def operands(self, path: Path, indices: Iterable[int] | None = None) -> list[Spot]:
        """Returns operands of an equation; by default all."""
        node = self.nodes[path[-1]]
        region = self.region(path)
        chosen = range(len(node.operands)) if indices is None else _all(indices, node)
        return [(path[:-1], (region, node.operands[n]), path) for n in chosen]

    def region(self, path: Path) -> str:
        """Returns the name of the body that an equation is in."""
        node = self.nodes[path[-1]]
        if node.results:
            name = node.results[0].name
            for region in self._inside(path[:-1]):
                if (region, name) in self.flow.makers:
                    return region
        return self.module.entry

    def _inside(self, path: Path) -> tuple[str, ...]:
        return self.nodes[path[-1]].regions if path else (self.module.entry,)

    def back(self, spots: Iterable[Spot], seen: Seen, *, nan: bool) -> NonFiniteOrigins:
        """Walks back from values along operands that had NaN, or infinities."""
        pending, visited = list(spots), set[Spot]()
        makers, inputs, way = set[Path](), set[int](), set[Path]()
        while pending:
            spot = pending.pop()
            if spot in visited:
                continue
            visited.add(spot)
            prefix, place, reader = spot
            maker = self.flow.makers.get(place)
            if maker is None:
                index = self.flow.places.get(place)
                if index is None and reader in seen:
                    makers.add(reader)
                if index is not None and not prefix:
                    inputs.add(index)
                pending += self.around(prefix, place)
                continue
            path = (*prefix, maker[1].id)
            execution = seen.get(path)
            if execution is None:
                continue
            inner = [s for s in self.bodies(path, place[1]) if self._measured(path, seen)]
            if inner:
                pending += inner
                continue
            way.add(path)
            operands = execution.nan_operands if nan else execution.inf_operands
            if operands:
                pending += self.operands(path, operands)
            else:
                makers.add(path)
        order = sorted(makers, key=lambda path: self.order(path, seen))
        passed = sorted(way, key=lambda path: self.order(path, seen))
        return NonFiniteOrigins(tuple(order), frozenset(inputs), tuple(passed))

    def all_inputs(self, spots: Iterable[Spot]) -> frozenset[int]:
        """Returns the indices of the program's inputs that values are computed from."""
        pending, visited, inputs = list(spots), set[Spot](), set[int]()
        while pending:
            spot = pending.pop()
            if spot in visited:
                continue
            visited.add(spot)
            prefix, place, _ = spot
            maker = self.flow.makers.get(place)
            if maker is None:
                index = self.flow.places.get(place)
                if index is not None and not prefix:
                    inputs.add(index)
                pending += self.around(prefix, place)
                continue
            path = (*prefix, maker[1].id)
            pending += list(self.bodies(path, place[1])) or self.operands(path)
        return frozenset(inputs)

    def order(self, path: Path, seen: Seen) -> tuple[int, ...]:
        """Returns a key by which equations sort as they were executed first."""
        iterations = iter(seen[path].iterations)
        key: list[int] = []
        for step in path:
            key.append(int(step[1:]))
            loops = step != path[-1] and self.nodes[step].opcode in LOOPS
            key.append(next(iterations, 0) if loops else 0)
        return tuple(key)

    def _measured(self, path: Path, seen: Seen) -> bool:
        return any(other[: len(path)] == path and len(other) > len(path) for other in seen)

    def bodies(self, path: Path, name: str) -> Iterator[Spot]:
        """Yields the results of an equation's bodies that are one of its results."""
        node = self.nodes[path[-1]]
        bodies = [self.flow.regions[n] for n in node.regions if n in self.flow.regions]
        bodies = bodies[:1] if node.opcode == "while" else bodies
        if not bodies or any(len(body.results) != len(node.results) for body in bodies):
            return
        index = [value.name for value in node.results].index(name)
        for body in bodies:
            yield path, (body.name, body.results[index]), path

    def around(self, prefix: Path, place: Place) -> Iterator[Spot]:
        """Yields what binds a parameter: operands of the call, and results of the body itself."""
        if not prefix or place not in self.flow.places:
            return
        caller = prefix[-1]
        for region, node in self.flow.callers[place[0]]:
            if node.id == caller:
                for bound in self.flow.bound(place, region, node):
                    inside = bound[0] in node.regions
                    yield (prefix if inside else prefix[:-1]), bound, prefix


def _all(indices: Iterable[int], node: Node) -> Iterator[int]:
    for n in indices:
        yield from range(n, len(node.operands)) if n == _LAST_BIT else (n,)
