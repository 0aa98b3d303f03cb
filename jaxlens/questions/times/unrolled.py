"""Finds loops that tracing unrolled: repeated blocks of equations, each reading the one before.

A block is a loop's body if every copy of it has the same primitives, reads its own values and
those of the copy before it in the same positions, and reads all else from before the loop: the same
value for all copies, or one per copy (the weights of a layer, a number from `range`). These are the
carry, the constants and the scanned inputs of a `lax.scan` that could run the loop. Copies that do
not read the copy before them are no loop, but could be a `vmap`.

    e0 = dot x w0       e2 = dot e1 w1      e4 = dot e3 w2      symbols: dot tanh dot tanh ...
    e1 = tanh e0        e3 = tanh e2        e5 = tanh e4        period 2
    (before, before)    (-1, before)        (-1, before)        what each dot reads

Operands are compared as offsets from the first value of their own copy. In a loop these are the
same for all copies except the first, which has the initial value where the others have -1. In the
example, one negative offset is read, so one value is carried.

Periods are searched as in string matching, in time linear in the number of equations: the candidate
periods at a position are the distances to the next occurrence of its next 1, 2, 4, ... 32 symbols.
A periodic stretch can be cut into blocks at any equation of the first period; the cut that carries
the fewest values is used. Of a loop in a loop the outer one is found: long periods are tried first.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from jaxlens.ir.columns import LITERAL, Columns, Place, Pool, ProgramColumns, columns, repeating
from jaxlens.ir.graph import Module, Span
from jaxlens.program.lines import Spot, spot
from jaxlens.program.python_loops import is_users_loop, loop_lines

_LEAST = 4  # copies that make a loop
_SAVED = 16  # equations that a scan has to save for a loop to count
_WINDOWS = 6  # window sizes: 1, 2, 4, ... 32
_TURNS = 64  # positions that are tried as the start of a block
_OUT = 1 << 40  # the offset of values from before the loop
# Attributes that select a part of an operand. They may differ between copies, as an index may.
_OF_A_STEP: Mapping[str, frozenset[str]] = {
    "slice": frozenset({"start_indices", "limit_indices"}),
    "pad": frozenset({"padding_config"}),
}


@dataclass(frozen=True, slots=True)
class Unrolled:
    """A loop that tracing unrolled in one body of a jaxpr.

    Attributes:
        region: The body.
        first: Position of its first equation in the body.
        size: Number of equations of the body per repetition.
        count: Number of repetitions.
        block: Number of equations per repetition, its calls inlined.
        line: The line or lines of the loop ("cell 3:14", "cell 3:14-16"); "" where unknown.
        id: The id of its first equation.
        carried: Number of values that one repetition passes to the next.
        times: How often the body occurs in the program.
        backward: Whether it is part of the backward pass, by its name stack.
        before: Number of equations of the same lines right before the loop, where they are about
            as many as a repetition has: a first iteration that differs from the others. 0 for
            none.
    """

    region: str
    first: int
    size: int
    count: int
    block: int
    line: str
    id: str
    carried: int
    times: int = 1
    backward: bool = False
    before: int = 0

    @property
    def equations(self) -> int:
        """Number of equations of all repetitions, in all occurrences of the body."""
        return self.count * self.block * self.times


def unrolled(
    module: Module,
    written: Mapping[str, int],
    times: Mapping[str, int],
    looped: Callable[[Span], int | None] = lambda span: None,
) -> tuple[Unrolled, ...]:
    """Returns the outermost unrolled loops of the user's, those with the most equations first.

    Args:
        module: A jaxpr.
        written: Number of equations by region, calls inlined.
        times: How often each region occurs in the program.
        looped: Says in how many Python loops a frame's line is; None where that is not known.
    """
    program = columns(module)
    alike = _alike(module, program)
    loops: list[Unrolled] = []
    for region in program.regions.values():
        if len(region) >= _LEAST and times.get(region.name):
            kinds = [alike[kind] for kind in region.kind]
            search = _Search(region, program, kinds, written, looped)
            loops += search.described(times[region.name])
    return tuple(sorted(loops, key=lambda loop: (-loop.equations, loop.region, loop.first)))


def _alike(module: Module, program: ProgramColumns) -> "array[int]":
    """Returns a number per kind, equal for kinds that differ only in literals or indices."""
    pool: Pool[object] = Pool()
    numbers = array("i", [-1]) * len(program.opcodes)
    for region in program.regions.values():
        nodes = module.regions[region.name].nodes
        for step, kind in enumerate(region.kind):
            if numbers[kind] < 0:
                node = nodes[region.steps[step]]
                own = _OF_A_STEP.get(node.opcode, frozenset())
                attrs = tuple(pair for pair in node.attrs.items() if pair[0] not in own)
                key = kind if node.regions else (attrs, tuple(v.type for v in node.results))
                numbers[kind] = pool.number((node.opcode, len(node.operands), key))
    return numbers


@dataclass(frozen=True, slots=True)
class _Search:
    """The search for loops in one body."""

    region: Columns
    program: ProgramColumns
    kinds: Sequence[int]  # of its equations, as `_alike` numbers them
    written: Mapping[str, int]
    looped: Callable[[Span], int | None]

    def loops(self) -> Iterator[Unrolled]:
        """Yields the loops among the periodic stretches of the body, the longest at each place.

        A period that is refused at one position is skipped until the stretch with that period
        ends, which keeps the search linear.
        """
        nexts = _next_occurrences(self.kinds)
        refused: dict[int, int] = {}
        at = 0
        while at < len(self.kinds):
            loop = None
            periods = {after[at] - at for after in nexts if after[at] >= 0}
            for period in sorted(periods, reverse=True):
                if refused.get(period, -1) > at:
                    continue
                steps = repeating(self.kinds, at, period, len(self.kinds) - period)
                if steps < (_LEAST - 1) * period:
                    continue
                loop = self._loop(at, period, steps)
                if loop is not None:
                    yield loop
                    break
                refused[period] = at + steps
            at = at + 1 if loop is None else loop.first + loop.size * loop.count

    def _loop(self, at: int, period: int, steps: int) -> Unrolled | None:
        """Returns the loop with a period, started where it carries the fewest values, or None."""
        count = steps // period + 1
        turns = min(steps + period - count * period, period - 1, _TURNS)
        loops = (self._chained(at + turn, period, count) for turn in range(turns + 1))
        best = min(filter(None, loops), key=lambda loop: loop.carried, default=None)
        return None if best is None or (best.count - 1) * best.block < _SAVED else best

    def _chained(self, first: int, size: int, count: int) -> Unrolled | None:
        """Returns a loop over the copies with equal reads; None for fewer than `_LEAST`.

        Where a copy differs, the search goes on with the copies after it.
        """
        for last in (count, count - 1):  # equations after the loop may look like one more copy
            start, left = first, last
            while left >= _LEAST and (wrong := self._unlike(start, size, left)) is not None:
                start, left = start + (wrong + 1) * size, left - wrong - 1
            if left >= _LEAST and self._linked(start, size, left - 1):
                carried = {v for v, _ in self._reads(start, size, left - 1) if v < 0}
                place = self.region.name, start, size, left, self._weight(start, size)
                return Unrolled(*place, "", self.region.ids[start], len(carried))
        return None

    def _linked(self, first: int, size: int, copy: int) -> bool:
        """Whether values cross every cut between two equations of a copy, the copy before included.

        Blocks of independent work, cut in the middle, also read the copy before them, but no value
        crosses the cut between two blocks:

            a0 b0, a1 b1, a2 b2 cut as (b0 a1) (b1 a2): nothing of a0 b0 is read by a1 b1
        """
        region, start = self.region, first + copy * size
        crossed: set[int] = set()
        for step in range(start, start + size):
            for back in region.distances(step):
                maker = bisect_right(region.first_result, region.first_result[step] - back) - 1
                if back != LITERAL and maker >= first:
                    crossed.update(n % size for n in range(max(maker, step - size) + 1, step + 1))
        return len(crossed) == size

    def _unlike(self, first: int, size: int, count: int) -> int | None:
        """Returns the last copy whose reads differ from the final copy's; None where none do."""
        steady = self._reads(first, size, count - 1)
        values = self.region.first_result[first + size] - self.region.first_result[first]
        for copy in range(count - 2, -1, -1):
            reads = self._reads(first, size, copy)
            for (value, kind), (usual, like) in zip(reads, steady, strict=True):
                before = usual < 0 and copy * values + usual < 0
                is_other = kind != like and -1 not in (kind, like)
                if is_other or value != (_OUT if before else usual):
                    return copy
        return None

    def _reads(self, first: int, size: int, copy: int) -> list[tuple[int, int]]:
        """Returns the operands of a copy: offset from its first value, and type; -1 of a literal.

        Those with an offset below 0 precede the copy.
        """
        region = self.region
        start = first + copy * size
        base, lowest = region.first_result[start], region.first_result[first]
        reads = []
        for step in range(start, start + size):
            own = region.first_result[step]
            for back in region.distances(step):
                value, kind = own - back, -1 if back == LITERAL else region.types[own - back]
                is_out = back == LITERAL or value < lowest
                reads.append((_OUT if is_out else value - base, kind))
        return reads

    def _weight(self, first: int, size: int) -> int:
        """Returns the number of equations of a stretch, its calls inlined."""
        calls = self.region.calls
        called = (name for n in range(first, first + size) for name in calls.get(n, ()))
        return size + sum(self.written[name] for name in called)

    def described(self, times: int) -> Iterator[Unrolled]:
        """Yields the loops that the user's source has, with their lines."""
        region, every = self.region, self.program.places
        placed = any(place.spans for place in every)
        for loop in self.loops():
            stop = loop.first + loop.size * loop.count
            places = [every[n] for n in sorted(set(region.place[loop.first : stop]))]
            if not placed or is_users_loop(places, self.looped):
                yield replace(
                    loop,
                    line=loop_lines(places, self.looped),
                    times=times,
                    backward="transpose(" in every[region.place[loop.first]].scope,
                    before=self._before(loop),
                )

    def _before(self, loop: Unrolled) -> int:
        """Returns the number of equations right before a loop that come from its lines.

        0 unless they are about one repetition: from half to one and a half of its size.
        """
        places, region = self.program.places, self.region
        block = set(region.place[loop.first : loop.first + loop.size])
        lines = {_user_lines(places[n]) for n in block}
        first = loop.first
        while first > 0 and _user_lines(places[region.place[first - 1]]) in lines:
            first -= 1
        equations = loop.first - first
        return equations if lines != {()} and loop.size <= 2 * equations < 3 * loop.size else 0


def _user_lines(place: Place) -> tuple[Spot, ...]:
    return tuple(spot(span) for span in place.spans if not span.library)


def _next_occurrences(symbols: Sequence[int]) -> list[list[int]]:
    """Returns, for windows of 1, 2, 4, ... symbols, the next occurrence of each; -1 for none.

    Windows are ranked by prefix doubling: equal pairs of ranks of width w are equal windows of
    width 2w, so each width takes one pass, without comparing symbols again.
    """
    nexts = []
    ranks = list(symbols)
    width = 1
    for _ in range(_WINDOWS):
        last: dict[int, int] = {}
        after = [-1] * len(symbols)
        for n in range(len(ranks) - 1, -1, -1):
            after[n] = last.get(ranks[n], -1)
            last[ranks[n]] = n
        nexts.append(after)
        pool: Pool[tuple[int, int]] = Pool()
        ranks = [pool.number(pair) for pair in zip(ranks, ranks[width:], strict=False)]
        width *= 2
    return nexts
