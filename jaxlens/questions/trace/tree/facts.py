"""How many operations wait for one another, and how many can be done at the same time."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from jaxlens.captures import Capture
from jaxlens.ir.graph import Module
from jaxlens.program.subject import ProgramFacts
from jaxlens.questions.trace.tree.element_flow import Flow, TooLargeError, follow, shape_of

_MOST_MASKS = 20_000  # operations up to which the inputs of each are counted
_MOST_LEAVES = 2_000
_DRAWN = 320  # operations in a picture
_DRAWN_LEAVES = 72


@dataclass(frozen=True, slots=True)
class Level:
    """The operations of one level: those that need as many levels before them.

    Attributes:
        operations: Number of operations on elements by primitive.
        equations: Ids of their equations.
    """

    operations: Mapping[str, int]
    equations: tuple[str, ...]

    @property
    def total(self) -> int:
        """Number of operations."""
        return sum(self.operations.values())


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation on elements.

    Attributes:
        number: Its number; it is larger than those of what it reads.
        level: Its level, from 1.
        primitive: What it does.
        equation: Id of its equation.
        line: The source line that owns the equation.
        reads: Numbers of the operations and input elements that it reads.
    """

    number: int
    level: int
    primitive: str
    equation: str
    line: str
    reads: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tree:
    """What a picture shows.

    Attributes:
        inputs: What Python calls each input element that is read ("x[3]"), by number, from left to
            right.
        operations: The operations, in an order in which they can run.
        results: Numbers of those that make an element of a result.
    """

    inputs: Mapping[int, str]
    operations: tuple[Operation, ...]
    results: frozenset[int]


@dataclass(frozen=True, slots=True)
class Depth(ProgramFacts):
    """The depth and the work of a program.

    Attributes:
        depth: Number of levels: the longest chain of operations that wait for one another; None
            where `why` is not "".
        work: Number of operations on elements, likewise.
        levels: The levels from the first on.
        reads: The most input elements that one element of the result is made of; None where that
            is not counted.
        computing: Number of equations that compute something.
        equations: Number of equations of the jaxpr, bodies included.
        moving: Number of equations that only move elements.
        moves: Their primitives.
        opaque: Primitives of which no element was followed.
        tree: What a picture shows; None where there is too much for one.
        why: Why no elements were followed; "" where they were.
    """

    depth: int | None
    work: int | None
    levels: tuple[Level, ...] = ()
    reads: int | None = None
    computing: int = 0
    equations: int = 0
    moving: int = 0
    moves: tuple[str, ...] = ()
    opaque: tuple[str, ...] = ()
    tree: Tree | None = None
    why: str = ""


def facts(capture: Capture) -> Depth:
    """Returns the depth and work of a program, from its jaxpr."""
    module = capture.jaxpr.module
    equations = list(module.nodes())
    try:
        flow = follow(module)
    except TooLargeError as error:
        return Depth(None, None, equations=len(equations), why=str(error), _subject=capture)
    computing = {node.id for node in flow.nodes}
    calls = {node.id for node in equations if node.regions}
    moving = [name for id, name in flow.ran.items() if id not in computing | calls]
    constants = len(module.body().parameters) - len(capture.program.inputs)
    inputs = [f"constant {n}" for n in range(constants)]
    inputs += [leaf.name for leaf in capture.program.inputs]
    return Depth(
        int(flow.level.max(initial=0)),
        len(flow.level) - flow.leaves,
        _levels(flow),
        _most_read(flow),
        len(computing),
        len(equations),
        len(moving),
        tuple(dict.fromkeys(moving)),
        tuple(dict.fromkeys(flow.opaque)),
        _tree(flow, module, inputs),
        _subject=capture,
    )


def _levels(flow: Flow) -> tuple[Level, ...]:
    operations: defaultdict[int, Counter[str]] = defaultdict(Counter)
    ids: defaultdict[int, dict[str, None]] = defaultdict(dict)
    made = zip(flow.level.tolist(), flow.equation.tolist(), strict=True)
    for (level, equation), n in Counter(made).items():
        if equation >= 0:
            node = flow.nodes[equation]
            operations[level][node.opcode] += n
            ids[level][node.id] = None
    return tuple(Level(dict(operations[n].most_common()), tuple(ids[n])) for n in sorted(ids))


def _most_read(flow: Flow) -> int | None:
    """Returns the most input elements that an element of the result depends on."""
    if len(flow.level) > _MOST_MASKS or flow.leaves > _MOST_LEAVES:
        return None
    masks = [1 << n if n < flow.leaves else 0 for n in range(len(flow.level))]
    for tail, head in flow.reads():
        masks[head] |= masks[tail]
    return max((masks[n].bit_count() for n in flow.made_of()), default=0)


def _tree(flow: Flow, module: Module, names: Sequence[str]) -> Tree | None:
    """Returns what to draw; None where there is too much, or nothing."""
    numbers = range(flow.leaves, len(flow.level))
    if not 0 < len(numbers) <= _DRAWN:
        return None
    reads: defaultdict[int, set[int]] = defaultdict(set)
    for tail, head in flow.reads():
        reads[head].add(tail)
    read = {n for tails in reads.values() for n in tails if n < flow.leaves}
    if len(read) > _DRAWN_LEAVES:
        return None
    operations = []
    for n in numbers:
        node, level = flow.nodes[int(flow.equation[n])], int(flow.level[n])
        line = str(node.owner or "")
        operations.append(Operation(n, level, node.opcode, node.id, line, tuple(sorted(reads[n]))))
    results = frozenset(n for n in flow.made_of() if n >= flow.leaves)
    return Tree(_inputs(module, names, read), tuple(operations), results)


def _inputs(module: Module, names: Sequence[str], read: set[int]) -> dict[int, str]:
    """Names input elements; of inputs of one shape those of one index stand side by side."""
    elements: list[tuple[tuple[int, ...], int, str]] = []
    first, shapes = 0, set()
    for value, name in zip(module.body().parameters, names, strict=True):
        shape = shape_of(value)
        for n in sorted(n for n in read if first <= n < first + prod(shape)):
            index = tuple(map(int, np.unravel_index(n - first, shape)))
            elements.append((index, n, f"{name}[{', '.join(map(str, index))}]" if index else name))
            shapes.add(shape)
        first += prod(shape)
    if len(shapes) == 1:
        elements.sort()
    return {number: text for _, number, text in elements}
