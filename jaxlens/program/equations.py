"""Counts the equations of a jaxpr by source line and call path, with every call inlined.

A body that several equations call is counted once per call, as if every call were inlined; the
body of a loop counts once. Lines are the user's; library frames are left out.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jaxlens.ir.columns import Columns, Place, calls, columns
from jaxlens.ir.graph import Module
from jaxlens.program.lines import shared_frames
from jaxlens.program.python_loops import looped
from jaxlens.program.subject import Given, Seen
from jaxlens.program.unrolled import Unrolled, unrolled

_CONTEXTS = 100  # call paths to one body that are kept apart; the others are counted as one
_FRAMES = 2_000  # frames of the flame graph
MORE = "(more call paths)"

Line = tuple[str, int, str]


@dataclass(frozen=True, slots=True)
class PathFrame:
    """One line on a call path.

    Attributes:
        line: "cell 3:14"; the program's name for the first frame.
        function: The function that the line is in; "" where unknown.
        depth: Number of frames above it.
        equations: Number of equations of the line and of its callees.
        own: Number of equations whose innermost user frame is this one.
        above: Index of its caller's frame; -1 for the first.
    """

    line: str
    function: str
    depth: int
    equations: int
    own: int
    above: int


@dataclass(frozen=True, slots=True)
class Equations:
    """The number of equations of a program, by line, call path and region.

    Attributes:
        total: Number of equations, every call inlined.
        shown: Number of equations as the jaxpr prints them, each body once.
        flame: Frames by call path, callers before callees, the largest first.
        own: Number of equations by the line that traced them.
        through: Number of equations by line, those of its callees included.
        written: Number of equations by region, its calls inlined.
        times: How often each region occurs in the program, every call inlined.
    """

    total: int
    shown: int
    flame: tuple[PathFrame, ...]
    own: Mapping[str, int]
    through: Mapping[str, int]
    written: Mapping[str, int]
    times: Mapping[str, int]


def equations(module: Module) -> Equations:
    """Counts the equations of a jaxpr, in time linear in its size."""
    written, times = _written(module)
    tree = _Tree(module)
    flame = tuple(tree.frames())
    own: Counter[str] = Counter()
    through: Counter[str] = Counter()
    for index, frame in enumerate(flame):
        if index and frame.line != MORE:
            own[frame.line] += frame.own
            above = frame.above
            while above > 0 and flame[above].line != frame.line:
                above = flame[above].above
            if above <= 0:  # else the line is also one of its callers, as in recursion
                through[frame.line] += frame.equations
    shown = sum(len(region) for region in columns(module).regions.values())
    return Equations(written[module.entry], shown, flame, +own, through, written, times)


def _written(module: Module) -> tuple[dict[str, int], dict[str, int]]:
    """Returns, by region, its number of equations with calls inlined, and its occurrences.

    Sizes are summed from callees to callers, occurrences from callers to callees, so neither
    expands a call: 20 functions that each call the next twice are 2 ** 20 inlined bodies.
    """
    called = calls(module)
    sizes = {name: len(region) for name, region in columns(module).regions.items()}
    written: dict[str, int] = {}
    for name in reversed(list(sizes)):
        inner = (region for regions in called[name].values() for region in regions)
        written[name] = sizes[name] + sum(written[region] for region in inner)
    times = dict.fromkeys(sizes, 0)
    times[module.entry] = 1
    for name in sizes:
        for regions in called[name].values():
            for region in regions:
                times[region] += times[name]
    return written, times


class _Tree:
    """A tree of call paths with the number of equations of each.

    A body is visited once, with the tree nodes of all calls that reach it and their counts, and
    passes these on to the bodies that it calls. The call stack of an equation in a body may repeat
    the frames of the call: these common frames are skipped, so that they are not added twice.

        call of f at main:9               node [main:9]
        equation in f, main:9 > f:2       node [main:9, f:2], not [main:9, main:9, f:2]
    """

    def __init__(self, module: Module) -> None:
        self._program = columns(module)
        self._stacks = [_stack(place) for place in self._program.places]
        self._lines: list[Line] = [(module.name, 0, "")]
        self._above, self._own = [-1], [0]
        self._below: list[dict[Line, int]] = [{}]
        contexts: dict[str, Counter[int]] = {module.entry: Counter({0: 1})}
        strip: dict[str, int] = {}
        for region in self._program.regions.values():
            if region.name in contexts:
                self._region(region, contexts, strip)

    def _region(
        self, region: Columns, contexts: dict[str, Counter[int]], strip: dict[str, int]
    ) -> None:
        skipped = strip.get(region.name, 0)
        callers = self._bounded(contexts.pop(region.name))
        ends: dict[int, list[tuple[int, int]]] = {}
        for place, count in Counter(region.place).items():
            path = self._stacks[place][skipped:]
            ends[place] = [(self._down(node, path), times) for node, times in callers.items()]
            for node, times in ends[place]:
                self._own[node] += times * count
        shared: dict[str, list[Line]] = {}  # by body, the outermost frames of all its equations
        for step, inner in region.calls.items():
            place = region.place[step]
            for name in inner:
                if name not in shared:
                    places = set(self._program.regions[name].place)
                    stacks = [self._stacks[n] for n in places]
                    shared[name] = stacks[0][: shared_frames(stacks)] if stacks else []
                same = shared_frames([shared[name], self._stacks[place]])
                strip[name] = max(strip.get(name, 0), same)
                reached = contexts.setdefault(name, Counter())
                for node, times in ends[place]:
                    reached[node] += times

    def _down(self, node: int, path: Iterable[Line]) -> int:
        """Returns the tree node at the end of a path from a node; adds nodes as needed."""
        for line in path:
            below = self._below[node]
            if line not in below:
                if len(self._lines) >= _FRAMES:
                    return node
                below[line] = len(self._lines)
                self._lines.append(line)
                self._above.append(node)
                self._own.append(0)
                self._below.append({})
            node = below[line]
        return node

    def _bounded(self, contexts: Counter[int]) -> Counter[int]:
        """Returns the most frequent call paths, with the others merged into one."""
        if len(contexts) <= _CONTEXTS:
            return contexts
        frequent = Counter(dict(contexts.most_common(_CONTEXTS)))
        rest = sum(contexts.values()) - sum(frequent.values())
        frequent[self._down(0, [(MORE, 0, "")])] += rest
        return frequent

    def frames(self) -> Iterable[PathFrame]:
        """Yields the frames in depth-first order, the largest of siblings first."""
        total = list(self._own)
        for node in range(len(total) - 1, 0, -1):
            total[self._above[node]] += total[node]
        place: dict[int, int] = {}
        pending = [(0, 0)]
        while pending:
            node, depth = pending.pop()
            file, line, function = self._lines[node]
            name = f"{file}:{line}" if line else file
            above = place[self._above[node]] if node else -1
            yield PathFrame(name, function, depth, total[node], self._own[node], above)
            place[node] = len(place)
            below = sorted(self._below[node].values(), key=lambda n: total[n])
            pending.extend((n, depth + 1) for n in below)


def _stack(place: Place) -> list[Line]:
    """Returns the user's lines of a call stack, outermost first."""
    spans = reversed(place.spans)
    return [(span.file, span.line, span.function) for span in spans if not span.library]


def written_out(
    capture: Seen, module: Module | None = None
) -> tuple[Equations, tuple[Unrolled, ...]]:
    """Returns the equations by line, and the unrolled loops; needs only the jaxpr.

    Args:
        capture: The program.
        module: Another jaxpr with the same sources; by default the program's own.
    """
    module = module or capture.jaxpr.module
    counted = equations(module)
    steps = looped(Given(lambda: capture.sources).or_else({}))
    return counted, unrolled(module, counted.written, counted.times, steps)
