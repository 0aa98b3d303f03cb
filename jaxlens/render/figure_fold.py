"""Folds a long body into a tree of runs, so that no panel has too many boxes.

A body is cut, in program order, into contiguous runs of one transform, named scope and call
path, from the outermost frame inwards. Runs that repeat side by side become one run "x k" if
they do the same and are wired alike: each copy reads what the copy before it reads, seen from
itself. What is still too long is cut into equal stretches. Nothing is lost: every step stands
in exactly one leaf. Works on columns of numbers, mostly by comparing stretches of them at
once; the work is linear in the number of steps.
"""

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, count, islice, pairwise
from operator import ne

from jaxlens.ir.columns import Columns, Place, Pool, Program
from jaxlens.ir.graph import Span

_TRIES = 6  # later steps of the same kind that are tried as the start of a repeat
_CHAIN = 6  # copies in a repeat's panel; each has edges from the inputs, which are slow to lay out
_GROUP = 16  # copies in the panel of those in the middle
_WIDER = 4  # times as many runs as a panel has room for are looked at before they are joined
_SPLICED = 6  # a run shorter than this is not worth a box while there is room
_STRETCH = 64  # elements that are compared at once at first
_TRANSFORM = re.compile(r"(\w+)\(")
_SCOPE = re.compile(r"[^/()]+(?=[/)]|$)")

Frame = str | Span  # a transform or scope by name, or a frame
Path = tuple[Frame, ...]


@dataclass(slots=True, unsafe_hash=True)  # frozen, thousands of them would take thrice as long
class Run:
    """The steps `low` to `high` (exclusive) as one box; nobody changes it.

    Attributes:
        low: First step.
        high: Step after the last.
        level: How many leading places of the path its steps have in common for certain.
        copies: How often the run repeats; its children are the copies, one by one.
        number: Which copy of a repeat it is, from 1; 0 for none.
    """

    low: int
    high: int
    level: int = 0
    copies: int = 1
    number: int = 0

    def __len__(self) -> int:
        return self.high - self.low


def call_path(place: Place) -> Path:
    """Where a node comes from, outermost first: transform, named scopes, frames."""
    transform = "(".join(_TRANSFORM.findall(place.scope))
    transform += ")" * transform.count("(")
    return (transform, *_SCOPE.findall(place.scope), *reversed(place.spans))


def _alike(place: Place) -> object:
    """What makes two places one: numbers in names of scopes (layer_3) do not count."""
    frames = ((s.key or s.file, s.line, s.function) for s in place.spans)
    return re.sub(r"\d+", "#", place.scope), *frames


class Folding:
    """The steps of one body, with what is needed to cut them quickly.

    Args:
        columns: The body.
        program: The program that it belongs to.
        reads: Per operand, the value that it is; see `Body.reads`.
    """

    def __init__(self, columns: Columns, program: Program, reads: Sequence[int]) -> None:
        self._columns, self._program, self._reads = columns, program, reads
        self._paths: dict[int, Path] = {}
        self._paths_of: dict[tuple[int, int], list[Path]] = {}
        self._common: dict[Run, int] = {}
        place = columns.place
        # Steps that come from elsewhere than the step before.
        self._changes = list(compress(count(1), map(ne, place, islice(place, 1, None))))
        pool: Pool[object] = Pool()
        same = {n: pool.number(_alike(program.places[n])) for n in set(columns.place)}
        self._same = array("i", map(same.__getitem__, columns.place))

    def path(self, step: int) -> Path:
        """Where a step comes from."""
        return self.at(self._columns.place[step])

    def at(self, place: int) -> Path:
        """The path of a place, by its number in the program."""
        path = self._paths.get(place)
        if path is None:
            path = self._paths[place] = call_path(self._program.places[place])
        return path

    def paths(self, run: Run) -> list[Path]:
        """The distinct paths of the run's steps, in order of first mention."""
        key = run.low, run.high
        found = self._paths_of.get(key)
        if found is None:
            steps = dict.fromkeys(self._columns.place[run.low : run.high])
            found = self._paths_of[key] = [self.at(n) for n in steps]
        return found

    def children(self, run: Run, most: int, room: int) -> list[Run]:
        """What the run's panel shows; single steps are runs of one.

        All steps where there are at most `most`; else at most `room` runs, so that a folded
        panel is read at a glance.
        """
        steps = run.high - run.low
        if run.copies > 1:
            return self._copies_of(run, most)
        if steps <= most:
            return [Run(n, n + 1, run.level) for n in range(run.low, run.high)]
        wide = _WIDER * room
        parts = self._widened(_bundled(self._cut(run), wide), room, wide)
        return self._spliced(_bundled(self._merged(parts, room), room), room)

    def _copies_of(self, run: Run, most: int) -> list[Run]:
        """The copies of a repeat; short ones, which are not worth a box each, step by step."""
        steps, size = run.high - run.low, (run.high - run.low) // run.copies
        short = size < _SPLICED
        if short and steps <= most:
            return [Run(n, n + 1, run.level) for n in range(run.low, run.high)]
        if not short:
            first = run.number or 1
            parts = [
                Run(run.low + n * size, run.low + (n + 1) * size, run.level, 1, first + n)
                for n in range(run.copies)
            ]
            if run.copies <= _CHAIN or run.number:
                return _bundled(parts, min(most, _GROUP), size)
            inner = Run(parts[1].low, parts[-1].low, run.level, run.copies - 2, 2)
            return [parts[0], inner, parts[-1]]  # how a chain starts, goes on and ends
        full = max(2, most // size) * size  # steps of as many copies as fill a panel
        blocks = [
            Run(low, high, run.level, (high - low) // size)
            for low in range(run.low, run.high, full)
            for high in (min(low + full, run.high),)
        ]
        return _bundled(blocks, most, size)

    def _cut(self, run: Run) -> list[Run]:
        """The run's parts at the first place where its steps differ, repeats joined."""
        parts = self._segments(run, self.common(run))
        while True:  # a repeat may be a part of a longer one
            joined = list(self._repeats(parts))
            if len(joined) == len(parts):
                return joined
            parts = joined

    def _widened(self, parts: list[Run], room: int, most: int) -> list[Run]:
        """Runs too long for a panel give way to their parts while there is room, longest first."""
        closed: set[tuple[int, int]] = set()  # too many parts
        while True:
            long = [
                n for n, part in enumerate(parts)
                if part.copies == 1 and len(part) > room and (part.low, part.high) not in closed
            ]  # fmt: skip
            if not long:
                return parts
            n = max(long, key=lambda n: (len(parts[n]), -n))
            inner = self._cut(parts[n])
            if len(parts) - 1 + len(inner) > most:
                closed.add((parts[n].low, parts[n].high))
            else:
                parts = [*parts[:n], *inner, *parts[n + 1 :]]

    def _merged(self, parts: list[Run], room: int) -> list[Run]:
        """Neighbours joined where there are too many, the shortest first; repeats stay.

        So what a program does once between its layers does not crowd them out.
        """
        parts = list(parts)
        while len(parts) > room:
            pairs = [
                (self.path(one.low)[0] != self.path(two.low)[0], len(one) + len(two), n)
                for n, (one, two) in enumerate(pairwise(parts))
                if one.copies == two.copies == 1
            ]
            if not pairs:
                return parts
            *_, n = min(pairs)
            one, two = parts[n : n + 2]
            parts[n : n + 2] = [Run(one.low, two.high, self._shared(one, two))]
        return parts

    def _shared(self, one: Run, two: Run) -> int:
        """How many leading places two runs share for certain."""
        paths = zip(self.path(one.low), self.path(two.low), strict=False)
        same = next((n for n, (a, b) in enumerate(paths) if a != b), one.level)
        return min(one.level, two.level, same)

    def common(self, run: Run) -> int:
        """How many leading places all steps of the run share."""
        known = self._common.get(run)
        if known is None:
            known = self._common[run] = self._common_of(run)
        return known

    def _common_of(self, run: Run) -> int:
        first, *others = self.paths(run)
        level = run.level
        while level < len(first) and all(
            len(path) > level and path[level] == first[level] for path in others
        ):
            level += 1
        return level

    def _segments(self, run: Run, level: int) -> list[Run]:
        """Cuts where the place at `level` changes; steps that have none stand alone."""
        place, changes = self._columns.place, self._changes
        frames: Pool[Frame] = Pool()
        at: dict[int, int | None] = {}
        for n in set(place[run.low : run.high]):
            path = self.at(n)
            at[n] = frames.number(path[level]) if len(path) > level else None
        starts: Iterable[int] = range(run.low, run.high)
        if None not in at.values():
            later = changes[bisect_right(changes, run.low) : bisect_left(changes, run.high)]
            starts = (run.low, *later)
        parts: list[Run] = []
        low, previous = run.low, None
        for n in starts:
            frame = at[place[n]]
            if n > low and (frame is None or frame != previous):
                parts.append(Run(low, n, level + (previous is not None)))
                low = n
            previous = frame
        parts.append(Run(low, run.high, level + (previous is not None)))
        return parts

    def _token(self, run: Run) -> tuple[bytes, bytes, int]:
        """What runs share that do the same at the same place."""
        steps = slice(run.low, run.high)
        return self._columns.kind[steps].tobytes(), self._same[steps].tobytes(), run.copies

    def _repeats(self, parts: list[Run]) -> Iterator[Run]:
        """Joins neighbouring equal stretches of runs into one run with copies."""
        tokens: Pool[tuple[bytes, bytes, int]] = Pool()
        following = _following([tokens.number(self._token(part)) for part in parts])
        n = 0
        while n < len(parts):
            joined = self._repeat_at(parts, following, n)
            if joined is None:
                yield parts[n]
                n += 1
            else:
                run, used = joined
                yield run
                n += used

    def _repeat_at(
        self, parts: list[Run], following: list[int], n: int
    ) -> tuple[Run, int] | None:  # fmt: skip
        """The longest repeat that begins with run `n`, and how many runs it takes, if any."""
        low, end = parts[n].low, parts[-1].high
        best: tuple[Run, int] | None = None
        again = following[n]
        for _ in range(_TRIES):
            if again < 0 or (best and best[0].high == end):
                break
            period, size = again - n, parts[again].low - low
            copies = self._copies(low, size, end, len(best[0]) if best else 2)
            # The last copy must end where a run ends.
            while copies > 1 and parts[n + period * copies - 1].high != low + size * copies:
                copies -= 1
            if copies > 1 and size * copies > (len(best[0]) if best else 2):
                level = min(part.level for part in parts[n:again]) - (period > 1)
                best = Run(low, low + size * copies, max(0, level), copies), period * copies
            again = following[again]
        return best

    def _copies(self, low: int, size: int, end: int, more: int) -> int:
        """How many equal and equally wired stretches of `size` steps stand from `low` on.

        It is 1 where they are no more than `more` steps, whatever they read.
        """
        room = end - size
        most = min(_equal(c, low, size, room) for c in (self._columns.kind, self._same)) // size
        if size * (most + 1) <= more:
            return 1
        read = self._columns.read
        operands = read[low + size] - read[low]
        base = self._columns.made[low]
        copies = 1
        while copies <= most:
            before = read[low + (copies - 1) * size]
            ready = _equal(self._columns.back, before, operands, read[low + most * size])
            again = ready // operands if operands else most + 1 - copies
            # Copies that read nothing from outside need no second look.
            if again and not _below(self._reads, before, before + again * operands, base):
                copies += min(again, most + 1 - copies)
            elif self._wired_alike(low, size, copies):
                copies += 1
            else:
                break
        return copies

    def _wired_alike(self, low: int, size: int, copy: int) -> bool:
        """Whether a copy reads what the copy before it reads, each seen from itself.

        What the copy before reads from outside, this one may read from elsewhere outside, or
        from the first copy: the copy before would have read the one before that. Two operands
        that are one value there are one value here.
        """
        columns, reads = self._columns, self._reads
        one, two = (columns.read[low + n * size] for n in (copy - 1, copy))
        three = 2 * two - one
        base, first = columns.made[low], columns.made[low + size]
        there: dict[int, int] = {}
        here: dict[int, int] = {}
        distances = columns.back[one:two], columns.back[two:three]
        for c, d, a, b in zip(*distances, reads[one:two], reads[two:three], strict=True):
            if c == d and a >= base:
                continue
            if not (c and d) or a >= base or b >= first:
                return False
            if there.setdefault(a, b) != b or here.setdefault(b, a) != a:
                return False
            if columns.types[a] != columns.types[b]:
                return False
        return True

    def _spliced(self, parts: list[Run], most: int) -> list[Run]:
        """Short runs dissolve into their steps while the panel has room."""
        room = most - len(parts)
        whole = []
        for part in parts:
            size = part.high - part.low
            if part.copies == 1 and 1 < size < _SPLICED and size - 1 <= room:
                room -= size - 1
                whole += [Run(n, n + 1, part.level) for n in range(part.low, part.high)]
            else:
                whole.append(part)
        return whole


def _equal(column: "array[int]", low: int, shift: int, end: int) -> int:
    """How many elements from `low` on are equal to the one `shift` further, those up to `end`."""
    n, stretch = low, _STRETCH
    while n < end:
        high = min(n + stretch, end)
        if column[n:high] == column[n + shift : high + shift]:
            n, stretch = high, 2 * stretch
        elif stretch > 1:
            stretch = max(1, (high - n) // 2)
            end = high
        else:
            break
    return n - low


def _below(values: Sequence[int], low: int, high: int, bound: int) -> bool:
    """Whether some of the values is below the bound."""
    return low < high and min(values[low:high]) < bound


def _following(tokens: Sequence[int]) -> list[int]:
    """For each position the next one with the same token, -1 for none."""
    seen: dict[int, int] = {}
    following = [-1] * len(tokens)
    for n in range(len(tokens) - 1, -1, -1):
        following[n] = seen.get(tokens[n], -1)
        seen[tokens[n]] = n
    return following


def _bundled(parts: list[Run], most: int, size: int = 0) -> list[Run]:
    """Neighbours joined where there are too many, so that no level has more than `most`.

    All joined runs have about the same number of parts, a power of `most` at most. Parts of
    a repeat, `size` steps to a copy, make a repeat again.
    """
    if len(parts) <= most:
        return parts
    unit = most
    while len(parts) > unit * most:
        unit *= most
    groups = -(-len(parts) // unit)
    level = max(0, min(part.level for part in parts) - (not size))
    bounds = [len(parts) * n // groups for n in range(groups + 1)]
    bundles = []
    for start, stop in pairwise(bounds):
        low, high = parts[start].low, parts[stop - 1].high
        if stop - start == 1:
            bundles.append(parts[start])
        else:
            copies = (high - low) // size if size else 1
            bundles.append(Run(low, high, level, copies, parts[start].number if size else 0))
    return bundles
