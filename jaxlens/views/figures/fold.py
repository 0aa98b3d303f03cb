"""Folds a long body into a tree of runs, so that no panel has too many boxes.

A body is cut, in program order, into contiguous runs of one transform, named scope and call
path, from the outermost frame inwards. Consecutive equal runs become one run "x k"
(`repeats.py`). A list of runs that is still too long is grouped evenly (`runs.bundled`).

    steps     embed | dot add dot add | dot add dot add | ... | loss
    paths     embed | layer0/mlp      | layer1/mlp      | ... | loss     cut where the frame changes
    panel     embed | layer x 12                              | loss     opens into its 12 copies

A run is a range of steps, and a cut splits a range into ranges, so every step is in exactly one
leaf, and edges between boxes follow from those between steps. The input is columns of numbers,
compared mostly as slices; the time is linear in the number of steps.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import compress, count, islice, pairwise
from operator import ne

from jaxlens.ir.columns import Columns, Pool, ProgramColumns
from jaxlens.views.figures.repeats import Repeats
from jaxlens.views.figures.runs import Frame, Path, StepRange, bundled, call_path

_CHAIN = 6  # copies in a repeat's panel; each has edges from the inputs, which are slow to lay out
_GROUP = 16  # copies in the panel of a chain's middle copies
_WIDER = 4  # runs considered before joining, as a multiple of a panel's room
_SPLICED = 6  # a shorter run has no box of its own while there is room


class Folding:
    """Folds the steps of one body; caches the paths and repeats that cuts need.

    Args:
        columns: The columns of the body.
        program: The program that it belongs to.
        reads: The value of each operand; see `DrawnRegion.reads`.
    """

    def __init__(self, columns: Columns, program: ProgramColumns, reads: Sequence[int]) -> None:
        self._columns, self._program = columns, program
        self._paths: dict[int, Path] = {}
        self._paths_of: dict[tuple[int, int], list[Path]] = {}
        self._common: dict[StepRange, int] = {}
        place = columns.place
        # Steps whose place differs from that of the step before.
        self._changes = list(compress(count(1), map(ne, place, islice(place, 1, None))))
        self._repeats = Repeats(columns, program, reads)

    def path(self, step: int) -> Path:
        """Returns the path of a step."""
        return self.at(self._columns.place[step])

    def at(self, place: int) -> Path:
        """Returns the path of a place, given by its number in the program."""
        path = self._paths.get(place)
        if path is None:
            path = self._paths[place] = call_path(self._program.places[place])
        return path

    def paths(self, run: StepRange) -> list[Path]:
        """Returns the distinct paths of the run's steps, in order of first occurrence."""
        key = run.low, run.high
        paths = self._paths_of.get(key)
        if paths is None:
            places = dict.fromkeys(self._columns.place[run.low : run.high])
            paths = self._paths_of[key] = list(map(self.at, places))
        return paths

    def children(self, run: StepRange, most: int, room: int) -> list[StepRange]:
        """Returns the runs that the run's panel shows; a single step is a run of one.

        These are all steps if there are at most `most`, else at most `room` runs, so that a folded
        panel stays small.
        """
        steps = run.high - run.low
        if run.copies > 1:
            return self._copies_of(run, most)
        if steps <= most:
            return [StepRange(n, n + 1, run.level) for n in range(run.low, run.high)]
        wide = _WIDER * room
        parts = self._widened(bundled(self._cut(run), wide), room, wide)
        return self._spliced(bundled(self._merged(parts, room), room), room)

    def _copies_of(self, run: StepRange, most: int) -> list[StepRange]:
        """Returns the copies of a repeat; copies too short for a box as steps, or in groups."""
        steps, size = run.high - run.low, (run.high - run.low) // run.copies
        short = size < _SPLICED
        if short and steps <= most:
            return [StepRange(n, n + 1, run.level) for n in range(run.low, run.high)]
        if not short:
            first = run.number or 1
            parts = [
                StepRange(run.low + n * size, run.low + (n + 1) * size, run.level, 1, first + n)
                for n in range(run.copies)
            ]
            if run.copies <= _CHAIN or run.number:
                return bundled(parts, min(most, _GROUP), size)
            inner = StepRange(parts[1].low, parts[-1].low, run.level, run.copies - 2, 2)
            return [parts[0], inner, parts[-1]]  # first copy, middle copies, last copy
        full = max(2, most // size) * size  # steps of as many copies as fill a panel
        blocks = [
            StepRange(low, high, run.level, (high - low) // size)
            for low in range(run.low, run.high, full)
            for high in (min(low + full, run.high),)
        ]
        return bundled(blocks, most, size)

    def _cut(self, run: StepRange) -> list[StepRange]:
        """Returns the run's parts by the first frame in which its steps differ, repeats joined."""
        parts = self._segments(run, self.common(run))
        while True:  # a repeat may be a part of a longer one
            joined = list(self._repeats.joined(parts))
            if len(joined) == len(parts):
                return joined
            parts = joined

    def _widened(self, parts: list[StepRange], room: int, most: int) -> list[StepRange]:
        """Replaces runs too long for a panel by their parts while there is room, longest first.

        With a room of 14, runs of 3, 100 and 2 steps may become runs of 3, 40, 60 and 2 steps, of
        which that of 60 is replaced next.
        """
        closed: set[tuple[int, int]] = set()  # runs with too many parts
        while True:
            long = [
                n
                for n, part in enumerate(parts)
                if part.copies == 1 and len(part) > room and (part.low, part.high) not in closed
            ]
            if not long:
                return parts
            n = max(long, key=lambda n: (len(parts[n]), -n))
            inner = self._cut(parts[n])
            if len(parts) - 1 + len(inner) > most:
                closed.add((parts[n].low, parts[n].high))
            else:
                parts = [*parts[:n], *inner, *parts[n + 1 :]]

    def _merged(self, parts: list[StepRange], room: int) -> list[StepRange]:
        """Joins neighbouring runs while there are too many, the shortest first, but no repeats.

        So the runs between a program's layers, which occur once, do not displace the layers.
        """
        parts = list(parts)
        while len(parts) > room:
            pairs = [
                (self.path(left.low)[0] != self.path(right.low)[0], len(left) + len(right), n)
                for n, (left, right) in enumerate(pairwise(parts))
                if left.copies == right.copies == 1
            ]
            if not pairs:
                return parts
            *_, n = min(pairs)
            left, right = parts[n : n + 2]
            parts[n : n + 2] = [StepRange(left.low, right.high, self._shared(left, right))]
        return parts

    def _shared(self, left: StepRange, right: StepRange) -> int:
        """Returns a lower bound of the number of leading frames that two runs share."""
        paths = zip(self.path(left.low), self.path(right.low), strict=False)
        same = next((n for n, (a, b) in enumerate(paths) if a != b), left.level)
        return min(left.level, right.level, same)

    def common(self, run: StepRange) -> int:
        """Returns the number of leading frames that all steps of the run share."""
        level = self._common.get(run)
        if level is None:
            first, *rest = self.paths(run)
            level = run.level
            while level < len(first) and all(
                len(path) > level and path[level] == first[level] for path in rest
            ):
                level += 1
            self._common[run] = level
        return level

    def _segments(self, run: StepRange, level: int) -> list[StepRange]:
        """Cuts a run where the frame at `level` changes; a step without one is a run of one."""
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
        parts: list[StepRange] = []
        low, previous = run.low, None
        for n in starts:
            frame = at[place[n]]
            if n > low and (frame is None or frame != previous):
                parts.append(StepRange(low, n, level + (previous is not None)))
                low = n
            previous = frame
        parts.append(StepRange(low, run.high, level + (previous is not None)))
        return parts

    def _spliced(self, parts: list[StepRange], most: int) -> list[StepRange]:
        """Replaces short runs by their steps while the panel has room."""
        room = most - len(parts)
        whole = []
        for part in parts:
            size = part.high - part.low
            if part.copies == 1 and 1 < size < _SPLICED and size - 1 <= room:
                room -= size - 1
                whole += [StepRange(n, n + 1, part.level) for n in range(part.low, part.high)]
            else:
                whole.append(part)
        return whole
