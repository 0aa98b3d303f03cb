"""Follows non-finite results back to the equations and inputs that they come from."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from jaxlens.ir.graph import Module, Node
from jaxlens.ir.jaxpr.refs import is_ref
from jaxlens.links.live_equations import Place, ValueFlow
from jaxlens.questions.nan.records import NonFiniteElements, NonFiniteExecution
from jaxlens.taps.primitives import BODIES_MEASURED, LOOPS, MOVES, Path


class Use(NamedTuple):
    """A variable, or a literal, where it is read.

    Attributes:
        calls: The equations whose bodies lead to the variable's body.
        variable: Its body and its name.
        reader: The equation that reads it; () for what is only returned.
    """

    calls: Path
    variable: Place
    reader: Path = ()


@dataclass(frozen=True, slots=True)
class NonFiniteOrigins:
    """What non-finite values come from.

    Attributes:
        makers: Equations that had such elements although no operand but a literal had them, in the
            order of execution; then those that only read or return such a literal.
        inputs: Indices of the program's inputs that are reached.
        way: The equations that it went through, in the order of execution.
    """

    makers: tuple[Path, ...] = ()
    inputs: frozenset[int] = frozenset()
    way: tuple[Path, ...] = ()


class Walker:
    """Follows the values of a program, into bodies and out of them.

    Attributes:
        module: The jaxpr.
        flow: Its dataflow.
        nodes: Its equations, by id.
        regions: The name of the body that each equation is in, by id.
        readers: The equations that read a variable.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.flow = ValueFlow(module)
        self.nodes = {node.id: node for node in module.nodes()}
        bodies = module.regions.values()
        self.regions = {node.id: body.name for body in bodies for node in body.nodes}
        self.readers: defaultdict[Place, list[Node]] = defaultdict(list)
        for body in self.flow.regions.values():
            for node in body.nodes:
                for name in dict.fromkeys(node.operands):
                    self.readers[body.name, name].append(node)

    def opcode(self, path: Path) -> str:
        """The primitive of an equation."""
        return self.nodes[path[-1]].opcode

    def results(self, elements: NonFiniteElements) -> list[Use]:
        """Returns the non-finite results, and what was written to a ref among the inputs."""
        main = self.module.body()
        refs = [value.name for value in main.parameters if is_ref(value.type)]
        names = [(main.name, name) for name in (*main.results, *refs)]
        written = [
            Use(calls, (body.name, write.operands[1]))
            for n in elements.results
            if n >= len(main.results)
            for body, write in self.flow.writes.get(names[n], ())
            for calls in self.call_paths(body.name)
        ]
        held = [use for use in written if self.was_nonfinite_before(use, elements)]
        return [*(Use((), names[n]) for n in elements.results), *held]

    def operands(self, path: Path, indices: Iterable[int] | None = None) -> list[Use]:
        """Returns operands of an equation, by default all, and what it reads of a ref."""
        node = self.nodes[path[-1]]
        region = self.regions[path[-1]]
        variables, whole = self.flow.written(self.module.regions[region], node)
        chosen = range(whole, len(node.operands)) if indices is None else indices
        uses = [Use(path[:-1], (region, node.operands[n]), path) for n in chosen]
        for variable in variables:
            uses += [Use(calls, variable, path) for calls in self.call_paths(variable[0])]
        return uses

    def call_paths(self, region: str) -> list[Path]:
        """Returns the equations whose bodies lead to a body, each way from the program to it."""
        if region == self.module.entry:
            return [()]
        return [
            (*calls, node.id)
            for around, node in self.flow.callers[region]
            for calls in self.call_paths(around.name)
        ]

    def iter_sources(
        self,
        uses: Iterable[Use],
        sources_of: Callable[[Path, Path], Iterable[Use]],
        crosses: Callable[[Use], bool] = lambda use: True,
        includes: Callable[[Path], bool] = lambda path: True,
    ) -> Iterator[tuple[Use, Path]]:
        """Yields values and what they are computed from, the nearest first.

        Each comes with the equation that computes it, which is () for a parameter and a literal.
        What binds a parameter is followed, and the results of bodies.

        Args:
            uses: The values.
            sources_of: Returns what is followed of an equation without bodies; it takes the
                equation and the one that reads its result.
            crosses: Whether a value is followed into another body.
            includes: Whether an equation is yielded, and followed.
        """
        pending, visited = deque(uses), set[Use]()
        while pending:
            use = pending.popleft()
            if use in visited:
                continue
            visited.add(use)
            made = self.flow.makers.get(use.variable)
            if made is None:
                yield use, ()
                pending += filter(crosses, self.parameter_bindings(use))
                continue
            path = (*use.calls, made[1].id)
            if includes(path):
                yield use, path
                inner = list(self.body_results(path, use))
                pending += filter(crosses, inner) if inner else sources_of(path, use.reader)

    def trace_origins(self, elements: NonFiniteElements, uses: Iterable[Use]) -> NonFiniteOrigins:
        """Follows values back along operands that had such elements."""
        executions = elements.executions
        makers, inputs, way = set[Path](), set[int](), set[Path]()

        def nonfinite(use: Use) -> bool:
            return self.was_nonfinite_before(use, elements)

        def nonfinite_operands(path: Path, reader: Path) -> list[Use]:
            found = list(filter(nonfinite, self.candidate_operands(path, elements)))
            if path in executions:
                way.add(path)
                if not found:
                    makers.add(path)
            # What moves elements is not measured: its reader stands for it, if there is one.
            moves = reader and self.opcode(path) in MOVES
            return [use._replace(reader=reader) for use in found] if moves else found

        for use, path in self.iter_sources(uses, nonfinite_operands, nonfinite):
            index = self.flow.places.get(use.variable)
            if not path and index is None:  # a literal
                makers.add(use.reader or use.calls)
            elif not path and index is not None and not use.calls:
                inputs.add(index)
        known = [path for path in makers if path in executions]
        order = sorted(known, key=lambda path: self.order(path, executions))
        literals = sorted(makers - {*known, ()})
        passed = sorted(way, key=lambda path: self.order(path, executions))
        return NonFiniteOrigins((*order, *literals), frozenset(inputs), tuple(passed))

    def candidate_operands(self, path: Path, elements: NonFiniteElements) -> list[Use]:
        """Returns the operands that the non-finite elements of an equation can come from."""
        if self.opcode(path) in MOVES:
            return self.operands(path, (0,))
        execution = elements.executions.get(path)
        chosen = execution.chosen if execution else None
        return self.operands(path, chosen or None)

    def made(self, path: Path, elements: NonFiniteElements) -> bool:
        """Whether an equation had such elements although no operand, nor a literal, had them."""
        uses = self.candidate_operands(path, elements)
        return not any(self.was_nonfinite_before(use, elements) for use in uses)

    def origins_of_operands(self, path: Path, elements: NonFiniteElements) -> NonFiniteOrigins:
        """Follows back the operands that had such elements before the equation had them first."""
        held = [use for use in self.operands(path) if self.was_nonfinite_before(use, elements)]
        return self.trace_origins(elements, held)

    def was_nonfinite_before(self, use: Use, elements: NonFiniteElements) -> bool:
        """Whether a value had such elements before the equation that reads it had them first."""
        executions = elements.executions
        limit = self.order(use.reader, executions) if use.reader in executions else None
        for source, path in self.moved_from([use]):
            index = self.flow.places.get(source.variable)
            if path:
                if path in executions and (limit is None or self.order(path, executions) < limit):
                    return True
            elif index is None:
                if elements.name in source.variable[1].partition(":")[0]:
                    return True
            elif not source.calls and index in elements.inputs:
                return True
        return False

    def moved_from(self, uses: Iterable[Use]) -> Iterator[tuple[Use, Path]]:
        """Yields values and what they have their elements from, as `iter_sources` does."""

        def moved(path: Path, _: Path) -> list[Use]:
            return self.operands(path, (0,)) if self.opcode(path) in MOVES else []

        return self.iter_sources(uses, moved)

    def inputs_of(self, uses: Iterable[Use]) -> frozenset[int]:
        """Returns the indices of the program's inputs that values are computed from."""
        walked = self.iter_sources(uses, lambda path, _: self.operands(path))
        ends = (use.variable for use, path in walked if not path and not use.calls)
        return frozenset(self.flow.places[end] for end in ends if end in self.flow.places)

    def order(self, path: Path, executions: Mapping[Path, NonFiniteExecution]) -> tuple[int, ...]:
        """Returns a key by which equations sort as they were executed first."""
        iterations = iter(executions[path].iterations)
        key: list[int] = []
        for step in path:
            key.append(int(step[1:]))
            loops = step != path[-1] and self.nodes[step].opcode in LOOPS
            key.append(next(iterations) if loops else 0)
        return tuple(key)

    def body_results(self, path: Path, use: Use) -> Iterator[Use]:
        """Yields the results of an equation's bodies that are one of its results."""
        node = self.nodes[path[-1]]
        bodies = [self.flow.regions[n] for n in node.regions if n in self.flow.regions]
        bodies = bodies[:1] if node.opcode == "while" else bodies
        if node.opcode not in BODIES_MEASURED or not bodies:
            return
        index = [value.name for value in node.results].index(use.variable[1])
        for body in bodies:
            yield Use(path, (body.name, body.results[index]), use.reader)

    def parameter_bindings(self, use: Use) -> Iterator[Use]:
        """Yields what binds a parameter: operands of the call, and results of the body itself."""
        if not use.calls or use.variable not in self.flow.places:
            return
        *outside, caller = use.calls
        for region, node in self.flow.callers[use.variable[0]]:
            if node.id == caller:
                for bound in self.flow.bound(use.variable, region, node):
                    calls = use.calls if bound[0] in node.regions else tuple(outside)
                    yield Use(calls, bound, use.reader)
