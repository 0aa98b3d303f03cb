"""Finds loops that tracing unrolled: a block of equations repeated, each copy chained to the last.

A block counts as a loop's body where each copy does the same, reads itself and the copy before it
at the same places, and the rest from before the loop: always the same value, or one per copy (the
weights of a layer, a number from `range`). So a carry, constants and inputs per step can be named,
and `lax.scan` could run it. Copies that do not read the one before are no loop: `vmap`'s, rather.

    e0 = dot x w0       e2 = dot e1 w1      e4 = dot e3 w2      symbols: dot tanh dot tanh ...
    e1 = tanh e0        e3 = tanh e2        e5 = tanh e4        period 2
    (before, before)    (-1, before)        (-1, before)        what each dot reads

Operands are compared as distances from the first value of their own copy. In a loop these are the
same for all copies, but for the first, which has the initial value where the others have -1. One
value below 0 is read, so one value is carried.

Periods are found as in string matching, in time linear in the number of equations: the candidates
at a place are the distances to where its next 1, 2, 4, ... 32 symbols occur again. A period may
begin at any of its equations; taken is the beginning at which the fewest values are carried. A
loop that was found becomes one symbol, and a further pass finds the loop around it.
"""

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jaxlens.ir.columns import LITERAL, Columns, Place, Pool, ProgramColumns, columns
from jaxlens.ir.graph import Module, Span

_LEAST = 4  # copies
_SAVED = 16  # equations that a scan would have to save
_LEVELS = 3  # loops in loops
_WINDOWS = 6  # doublings of a window
_STRETCH = 64
_TURNS = 64  # places that are tried for a block's beginning
_OUT = 1 << 40  # reads a value from before the loop
# Attributes that say which part of an operand is meant: a step's own, as an index would be.
_OF_A_STEP: Mapping[str, frozenset[str]] = {
    "slice": frozenset({"start_indices", "limit_indices"}),
    "pad": frozenset({"padding_config"}),
}


@dataclass(frozen=True, slots=True)
class Unrolled:
    """A loop that stands written out in one body of a jaxpr.

    Attributes:
        region: The body.
        first: Its first equation, by place in the body.
        size: Equations of the body that one repetition takes.
        count: Repetitions.
        block: Equations of one repetition, what it calls written out.
        line: The line or lines that made it ("cell 3:14", "cell 3:14-16"); "" where unknown.
        id: Its first equation's id.
        carried: How many values one repetition hands to the next.
        times: How often the body stands in the program.
        backward: Whether the backward pass added it: JAX marks its scope.
        inside: Loops in one repetition.
        before: Equations right before it that its lines made too, where they are as many as a
            step's: a first one that is unlike the others. 0 for none.
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
    inside: tuple["Unrolled", ...] = ()
    before: int = 0

    @property
    def equations(self) -> int:
        """Equations of all repetitions, wherever the body stands."""
        return self.count * self.block * self.times

    @property
    def rolled(self) -> int:
        """Equations of a scan's body in its place, loops in it rolled too."""
        return self.block - sum(loop.count * loop.block - loop.rolled for loop in self.inside)


def unrolled(
    module: Module,
    written: Mapping[str, int],
    times: Mapping[str, int],
    looped: Callable[[Span], bool] = lambda span: False,
) -> tuple[Unrolled, ...]:
    """The outermost unrolled loops of a jaxpr, those that made most equations first.

    Args:
        module: A jaxpr.
        written: Equations by region, what it calls written out.
        times: How often each region stands in the program.
        looped: Tells whether a frame's line stands in a loop of Python's.
    """
    program = columns(module)
    alike = _alike(module, program)
    found: list[Unrolled] = []
    for region in program.regions.values():
        if len(region) >= _LEAST and times.get(region.name):
            search = _Search(region, program, alike, written, looped)
            found += (search.described(loop, times[region.name]) for loop in search.loops())
    return tuple(sorted(found, key=lambda loop: (-loop.equations, loop.region, loop.first)))


def _alike(module: Module, program: ProgramColumns) -> "array[int]":
    """Per kind, a number that kinds share which differ in literals and indices alone."""
    pool: Pool[object] = Pool()
    found = array("i", [-1]) * len(program.opcodes)
    for region in program.regions.values():
        nodes = module.regions[region.name].nodes
        for step, kind in enumerate(region.kind):
            if found[kind] < 0:
                node = nodes[region.steps[step]]
                own = _OF_A_STEP.get(node.opcode, frozenset())
                attrs = tuple(pair for pair in node.attrs.items() if pair[0] not in own)
                key = kind if node.regions else (attrs, tuple(v.type for v in node.results))
                found[kind] = pool.number((node.opcode, len(node.operands), key))
    return found


@dataclass(slots=True)
class _Loop:
    first: int
    size: int
    count: int
    carried: int
    inside: list["_Loop"] = field(default_factory=list)

    @property
    def stop(self) -> int:
        return self.first + self.size * self.count


@dataclass(slots=True)
class _Token:
    """A step, or a loop that was found."""

    first: int
    stop: int
    symbol: int
    loop: _Loop | None = None


class _Search:
    """The loops of one body."""

    def __init__(
        self,
        region: Columns,
        program: ProgramColumns,
        alike: Sequence[int],
        written: Mapping[str, int],
        looped: Callable[[Span], bool],
    ) -> None:
        self._region, self._program, self._written = region, program, written
        self._looped = looped
        self._kinds = [alike[kind] for kind in region.kind]
        self._symbols: Pool[object] = Pool()

    def loops(self) -> list[_Loop]:
        """The outermost loops, in order."""
        return self._within(0, len(self._kinds), _LEVELS)

    def _within(self, low: int, high: int, levels: int) -> list[_Loop]:
        tokens = [_Token(n, n + 1, self._symbols.number(self._kinds[n])) for n in range(low, high)]
        for level in range(levels):
            found = self._pass(tokens)
            if not found:
                break
            if not level and levels > 1:
                for loop in found:
                    last = loop.stop - loop.size
                    loop.inside = self._within(last, loop.stop, levels - 1)
            tokens = self._folded(tokens, found)
        return [token.loop for token in tokens if token.loop]

    def _folded(self, tokens: list[_Token], found: list[_Loop]) -> list[_Token]:
        """The steps of each loop as one token."""
        by_first = {loop.first: loop for loop in found}
        done: list[_Token] = []
        stop = -1
        for token in tokens:
            loop = by_first.get(token.first)
            if loop is not None:
                stop = loop.stop
                block = tuple(self._kinds[loop.first : loop.first + loop.size])
                symbol = self._symbols.number((block, loop.count))
                done.append(_Token(loop.first, stop, symbol, loop))
            elif token.first >= stop:
                done.append(token)
        return done

    def _pass(self, tokens: list[_Token]) -> list[_Loop]:
        """The loops that are periods of these tokens."""
        symbols = [token.symbol for token in tokens]
        nexts = _next_met(symbols)
        refused: dict[int, int] = {}
        found: list[_Loop] = []
        at, size = 0, len(tokens)
        while at < size:
            loop = None
            for period in sorted({after[at] - at for after in nexts if after[at] >= 0}):
                if refused.get(period, -1) > at:
                    continue
                steps = _matching(symbols, at, period)
                if steps < (_LEAST - 1) * period:
                    continue
                loop = self._loop(tokens, at, period, steps)
                if loop is not None:
                    break
                refused[period] = at + steps
            if loop is None:
                at += 1
                continue
            found.append(loop)
            while at < size and tokens[at].first < loop.stop:
                at += 1
        return found

    def _loop(self, tokens: list[_Token], at: int, period: int, steps: int) -> _Loop | None:
        """The loop of that period, begun where the fewest values are handed on."""
        count = steps // period + 1
        turns = min(steps + period - count * period, period - 1, _TURNS)
        best = None
        for turn in range(turns + 1):
            start = at + turn
            first = tokens[start].first
            length = tokens[start + period - 1].stop - first
            loop = self._chained(first, length, count)
            if loop is not None and (best is None or loop.carried < best.carried):
                best = loop
        if best is None or (best.count - 1) * self._weight(best.first, best.size) < _SAVED:
            return None
        for token in tokens[at:]:
            if token.first >= best.first + best.size:
                break
            if token.loop is not None and token.first >= best.first:
                best.inside.append(token.loop)
        return best

    def _chained(self, first: int, size: int, count: int) -> _Loop | None:
        """Those of the copies that read each other alike, if they are enough."""
        for last in (count, count - 1):  # what follows may look like one copy more
            start, left = first, last
            while left >= _LEAST:
                wrong = self._unlike(start, size, left)
                if wrong is None:
                    break
                start, left = start + (wrong + 1) * size, left - wrong - 1
            if left >= _LEAST:
                carried = {v for v in self._reads(start, size, left - 1) if v < 0}
                if carried and self._recurs(start, size, left - 1):
                    return _Loop(start, size, left, len(carried))
        return None

    def _recurs(self, first: int, size: int, copy: int) -> bool:
        """Whether some value handed on depends on itself a copy before, or on a ring of such.

        Where each copy is work of its own, cut in two, the second half reads the first and no more.
        """
        region = self._region
        start = first + copy * size
        values = region.first_result[first + size] - region.first_result[first]
        reads = iter(self._reads(first, size, copy))
        needs: list[
            int
        ] = []  # per value of the copy, the handed values that it depends on, as bits
        handed: Pool[int] = Pool()
        for step in range(start, start + size):
            bits = 0
            for _ in range(region.first_operand[step], region.first_operand[step + 1]):
                value = next(reads)
                if 0 <= value < _OUT:
                    bits |= needs[value]
                elif value < 0:
                    bits |= 1 << handed.number(value % values)
            needs += [bits] * (region.first_result[step + 1] - region.first_result[step])
        left = {number: needs[value] for value, number in handed.items()}
        while left:
            alive = sum(1 << number for number in left)
            kept = {number: bits for number, bits in left.items() if bits & alive}
            if len(kept) == len(left):
                return True
            left = kept
        return False

    def _unlike(self, first: int, size: int, count: int) -> int | None:
        """The last copy that does not read as the last of all does; None where all do."""
        steady = self._reads(first, size, count - 1)
        types = self._types(first, size, count - 1)
        values = self._region.first_result[first + size] - self._region.first_result[first]
        for copy in range(count - 2, -1, -1):
            reads = self._reads(first, size, copy)
            if reads != steady:
                for mine, usual in zip(reads, steady, strict=True):
                    before = usual < 0 and copy * values + usual < 0
                    if mine != (_OUT if before else usual):
                        return copy
            if not _same_types(types, self._types(first, size, copy)):
                return copy
        return None

    def _reads(self, first: int, size: int, copy: int) -> list[int]:
        """Per operand of a copy, the value seen from the copy's first: below 0, one before it."""
        region = self._region
        start = first + copy * size
        base, lowest = region.first_result[start], region.first_result[first]
        found = []
        for step in range(start, start + size):
            own = region.first_result[step]
            for back in region.distances(step):
                value = own - back
                found.append(_OUT if back == LITERAL or value < lowest else value - base)
        return found

    def _types(self, first: int, size: int, copy: int) -> list[int]:
        """Per operand, its type; -1 for a literal."""
        region = self._region
        start = first + copy * size
        return [
            -1 if back == LITERAL else region.types[region.first_result[step] - back]
            for step in range(start, start + size)
            for back in region.distances(step)
        ]

    def _weight(self, first: int, size: int) -> int:
        """Equations of a stretch, what it calls written out."""
        calls = self._region.calls
        called = (name for n in range(first, first + size) for name in calls.get(n, ()))
        return size + sum(self._written[name] for name in called)

    def described(self, loop: _Loop, times: int) -> Unrolled:
        """A loop with the lines that made it."""
        region = self._region
        return Unrolled(
            region.name,
            loop.first,
            loop.size,
            loop.count,
            self._weight(loop.first, loop.size),
            self._line(loop),
            region.ids[loop.first],
            loop.carried,
            times,
            "transpose(" in self._program.places[region.place[loop.first]].scope,
            tuple(self.described(inner, times * loop.count) for inner in loop.inside),
            self._before(loop),
        )

    def _before(self, loop: _Loop) -> int:
        """Equations right before a loop that its own lines made: at least half a repetition."""
        places, region = self._program.places, self._region
        frames = {
            _frames(places[n]) for n in set(region.place[loop.first : loop.first + loop.size])
        }
        first = loop.first
        while first > 0 and _frames(places[region.place[first - 1]]) in frames:
            first -= 1
        made = loop.first - first
        return made if frames != {()} and loop.size <= 2 * made < 3 * loop.size else 0

    def _line(self, loop: _Loop) -> str:
        places = self._program.places
        used = sorted(set(self._region.place[loop.first : loop.stop]))
        return lines_named([places[n] for n in used], self._looped)


def _frames(place: Place) -> tuple[tuple[str, int], ...]:
    return tuple((span.key or span.file, span.line) for span in place.spans if not span.library)


def _same_types(usual: list[int], mine: list[int]) -> bool:
    return usual == mine or all(a == b or -1 in (a, b) for a, b in zip(usual, mine, strict=True))


def _next_met(symbols: Sequence[int]) -> list[list[int]]:
    """For windows of 1, 2, 4, ... symbols: where each is met next; -1 for nowhere."""
    found = []
    ranks = list(symbols)
    width = 1
    for _ in range(_WINDOWS):
        last: dict[int, int] = {}
        after = [-1] * len(symbols)
        for n in range(len(ranks) - 1, -1, -1):
            after[n] = last.get(ranks[n], -1)
            last[ranks[n]] = n
        found.append(after)
        pool: Pool[tuple[int, int]] = Pool()
        ranks = [pool.number(pair) for pair in zip(ranks, ranks[width:], strict=False)]
        width *= 2
    return found


def _matching(symbols: Sequence[int], at: int, period: int) -> int:
    """How many symbols from `at` on are the same one period later."""
    low, stretch = at, _STRETCH
    end = len(symbols) - period
    while low < end:
        high = min(low + stretch, end)
        if symbols[low:high] != symbols[low + period : high + period]:
            while symbols[low] == symbols[low + period]:
                low += 1
            return low - at
        low, stretch = high, stretch * 2
    return max(end - at, 0)


def lines_named(places: Sequence[Place], looped: Callable[[Span], bool]) -> str:
    """The line, or neighbouring lines, that go round and round: a library's if none is the user's.

    Those are the innermost that all places go through, in a loop of Python's if there is one.
    """
    every = [tuple(reversed(place.spans)) for place in places]
    own = [[span for span in stack if not span.library] for stack in every]
    stacks = [stack for stack in own if stack] or [list(stack) for stack in every if stack]
    if not stacks:
        return ""
    common = _common(stacks)
    beyond = [stack[common] for stack in stacks if len(stack) > common]
    if len({(span.key or span.file, span.function) for span in beyond}) != 1:
        beyond = []
    if not (beyond and all(map(looped, beyond))):
        for span in reversed(stacks[0][:common]):
            if looped(span):
                return str(span)
    if beyond:
        first, last = min(s.line for s in beyond), max(s.line for s in beyond)
        return f"{beyond[0].file}:{first}" + (f"-{last}" if last > first else "")
    return str(stacks[0][common - 1]) if common else ""


def _common(stacks: Sequence[Sequence[Span]]) -> int:
    """Outermost frames that all stacks share, by line."""
    first = [(span.key or span.file, span.line) for span in stacks[0]]
    common = len(first)
    for stack in stacks[1:]:
        other = [(span.key or span.file, span.line) for span in stack[:common]]
        common = next(
            (n for n, (a, b) in enumerate(zip(first, other, strict=False)) if a != b),
            min(common, len(other)),
        )
    return common


def nested(loops: Sequence[Unrolled]) -> Iterator[Unrolled]:
    """Loops and those in them."""
    pending = list(reversed(loops))
    while pending:
        loop = pending.pop()
        yield loop
        pending.extend(reversed(loop.inside))
