"""One region with the data for drawing it: its columns, names of values, and folding."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from jaxlens.ir.columns import Columns, ProgramColumns, columns, namer
from jaxlens.ir.graph import Module, Node, Region
from jaxlens.program.counted import EquationSums
from jaxlens.views.figures.fold import Folding
from jaxlens.views.figures.gradients import after_gradients
from jaxlens.views.figures.runs import StepRange

_OF_MODULES = 30  # steps of a body of modules that is drawn step by step
_IN_MODULES = 12  # and of a run inside it
_SCOPE = re.compile(r"(?<![\w.])[\w.]+(?=[/)]|$)")  # a named scope, not a transform: `vmap(layer)`
_OF_JAXPR, _OF_HLO = ("eqns", "equations"), ("instrs", "instructions")


@dataclass(frozen=True)
class DrawnRegion:
    """A region with the data for drawing it; made by `bodies_of`. Values are numbers of columns.

    Attributes:
        region: The region.
        columns: Its columns.
        program: The program that it belongs to.
        name: Returns the name of a value in the program.
        inputs: Names of the program's inputs, by value.
        called: Returns what the user's code calls the values of a region.
        results: Names of results in the user's program, in order; "" for none.
        constants: Parameters that are captured constants.
        costs: Estimates the flops of runs; None for none.
        most: Maximum number of boxes in a panel; a region with more steps is folded.
        nouns: What several steps are called in a box and in a sentence.
        after: Steps that come after the gradients.
    """

    region: Region
    columns: Columns
    program: ProgramColumns
    name: Callable[[int], str]
    inputs: Mapping[int, str]
    called: Callable[[str], Mapping[int, str]]
    results: tuple[str, ...]
    constants: frozenset[int]
    most: int
    costs: EquationSums | None = None
    nouns: tuple[str, str] = ("eqns", "equations")
    after: frozenset[int] = frozenset()

    @cached_property
    def names(self) -> Mapping[int, str]:
        """What the user's code calls inputs and results of steps, by value."""
        return {**self.called(self.region.name), **self.inputs}

    @cached_property
    def folding(self) -> Folding:
        """The folding of the steps; used for long regions only."""
        return Folding(self.columns, self.program, self.reads)

    @cached_property
    def reads(self) -> Sequence[int]:
        """As `Columns.reads`."""
        return self.columns.reads()

    @cached_property
    def last(self) -> Mapping[int, int]:
        """Last step that reads each value; the number of steps for a result of the region.

        A value without readers is missing, or has the step that makes it.
        """
        steps = self.columns.per_operand(range(len(self.columns)))
        last = dict(zip(self.reads, steps, strict=True))
        last.update(dict.fromkeys(self.columns.results, len(self.columns)))
        return last

    def __len__(self) -> int:
        return len(self.columns)

    def node(self, step: int) -> Node:
        """Returns the node of a step."""
        return self.region.nodes[self.columns.steps[step]]

    def type(self, value: int) -> str:
        """Returns the printed type of a value."""
        return self.printed[self.columns.types[value]]

    @cached_property
    def printed(self) -> Sequence[str]:
        """Printed types, by their number in the program."""
        return list(map(str, self.program.types))

    def variables(self, step: int) -> frozenset[str]:
        """Returns the names of the step's operands that are not literals."""
        back = self.columns.distances(step)
        return frozenset(
            name for name, distance in zip(self.node(step).operands, back, strict=True) if distance
        )

    @property
    def folded(self) -> bool:
        """Whether the region has too many steps to be drawn step by step."""
        return len(self) > (_OF_MODULES if self.modular else self.most)

    @cached_property
    def modular(self) -> bool:
        """Whether its equations belong to modules: classes that are called, or named scopes."""
        if self.costs is None:  # not a jaxpr
            return False
        places = map(self.program.places.__getitem__, set(self.columns.place))
        return any(
            _SCOPE.search(place.scope) or any(s.function.endswith(".__call__") for s in place.spans)
            for place in places
        )

    @property
    def shown(self) -> int:
        """Number of steps up to which a run is drawn step by step."""
        return _IN_MODULES if self.modular else self.most

    def top(self, room: int) -> list[StepRange]:
        """Returns the runs of the region's panel: single steps, or at most `room` if folded."""
        whole = StepRange(0, len(self))
        if not self.folded:
            return [StepRange(n, n + 1) for n in range(len(self))]
        return self.folding.children(whole, self.shown, room)

    def flops(self, run: StepRange) -> int | None:
        """Estimates the flops of a run; None where some are unknown."""
        return self.costs.run(self.region.name, run.low, run.high) if self.costs else None

    @property
    def title(self) -> str:
        """The region's name, without the number that makes it unique."""
        return plain(self.region.name)


def plain(region: str) -> str:
    """Returns a region's name without its unique number, `relu` for `relu 2`; branches keep it."""
    return region if region.startswith("branch ") else re.sub(r" \d+$", "", region)


def bodies_of(
    module: Module,
    max_boxes: int,
    inputs: Sequence[str],
    outputs: Sequence[str],
    called: Callable[[str], Mapping[int, str]] = lambda _: {},
    costs: EquationSums | None = None,
) -> Mapping[str, DrawnRegion]:
    """Returns every region of the module with the data for drawing; arguments as of `figure`.

    Only the entry has names of outputs.
    """
    program = columns(module)
    nouns = _OF_JAXPR if module.stage == "jaxpr" else _OF_HLO
    bodies, after = {}, after_gradients(program)
    for name, region in module.regions.items():
        rows = program.regions[name]
        naming = namer(module, rows)
        constants, own = frozenset(range(region.constants)), after.get(name, frozenset())
        rest = (), constants, max_boxes, costs, nouns, own
        bodies[name] = DrawnRegion(region, rows, program, naming, {}, called, *rest)
    entry = module.regions[module.entry]
    numbers = range(entry.constants, len(entry.parameters))
    bodies[module.entry] = replace(
        bodies[module.entry],
        inputs=dict(zip(numbers, inputs, strict=True)) if len(inputs) == len(numbers) else {},
        results=tuple(outputs) if len(outputs) == len(entry.results) else (),
    )
    return bodies
