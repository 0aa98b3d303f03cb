"""Folds a long body into a tree of runs, so that no panel has too many boxes.

A body is cut, in program order, into contiguous runs of one transform, named scope and call
path, from the outermost frame inwards. Runs that repeat side by side and are wired alike
become one run "x k". What is still too long is cut into equal stretches. Nothing is lost:
every step stands in exactly one leaf. The work is linear in the number of steps times the
length of their call paths.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from jaxlens.ir.graph import Node, Span

_MODULUS = (1 << 61) - 1
_BASE = 1_000_003
_TRIES = 6  # later steps of the same kind that are tried as the start of a repeat
_CHAIN = 16  # copies in one panel; each has edges from the inputs, and long edges cost time
_SPLICED = 6  # a run shorter than this is not worth a box while there is room
_TRANSFORM = re.compile(r"(\w+)\(")
_SCOPE = re.compile(r"[^/()]+(?=[/)]|$)")

Place = str | Span  # a transform or scope by name, or a frame


@dataclass(frozen=True, slots=True)
class Step:
    """One equation to fold.

    Attributes:
        kind: A number that equal equations share: opcode, attributes, types, place.
        path: Transform, named scopes, then frames, outermost first.
        reads: For each operand that a step of this body makes, that step's index; for others -1.
    """

    kind: int
    path: tuple[Place, ...]
    reads: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """The steps `low` to `high` (exclusive) as one box.

    Attributes:
        low: First step.
        high: Step after the last.
        level: How many leading places of the path its steps have in common for certain.
        copies: How often the run repeats; its children are the copies, one by one.
    """

    low: int
    high: int
    level: int = 0
    copies: int = 1


def call_path(node: Node) -> tuple[Place, ...]:
    """Where a node comes from, outermost first: transform, named scopes, frames."""
    transform = "(".join(_TRANSFORM.findall(node.scope))
    transform += ")" * transform.count("(")
    return (transform, *_SCOPE.findall(node.scope), *reversed(node.spans))


def place_key(place: Place) -> object:
    """What makes two places one: numbers in names of scopes (layer_3) do not count."""
    if isinstance(place, str):
        return re.sub(r"\d+", "#", place)
    return place.key or place.file, place.line, place.function


class Folding:
    """The steps of one body, with what is needed to cut them quickly."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self._hashes, self._powers = [0], [1]
        for step in steps:
            self._hashes.append((self._hashes[-1] * _BASE + step.kind + 1) % _MODULUS)
            self._powers.append(self._powers[-1] * _BASE % _MODULUS)

    def children(self, run: Run, most: int) -> list[Run]:
        """What the run's panel shows; single steps are runs of one.

        All steps where there are at most `most`; else about half as many runs at most, so
        that a folded panel is read at a glance.
        """
        steps = run.high - run.low
        if run.copies > 1:
            return self._copies_of(run, most)
        if steps <= most:
            return [Run(n, n + 1, run.level) for n in range(run.low, run.high)]
        room = max(6, most // 2)
        parts = _bundled(self._cut(run), room)
        return self._spliced(self._widened(parts, room), room)

    def _copies_of(self, run: Run, most: int) -> list[Run]:
        """The copies of a repeat; short ones, which are not worth a box each, step by step."""
        steps, size = run.high - run.low, (run.high - run.low) // run.copies
        short = size < _SPLICED
        if short and steps <= most:
            return [Run(n, n + 1, run.level) for n in range(run.low, run.high)]
        if not short:
            parts = [Run(low, low + size, run.level) for low in range(run.low, run.high, size)]
            return _bundled(parts, min(most, _CHAIN), size)
        full = max(2, most // size) * size  # steps of as many copies as fill a panel
        blocks = [
            Run(low, high, run.level, (high - low) // size)
            for low in range(run.low, run.high, full)
            for high in (min(low + full, run.high),)
        ]
        return _bundled(blocks, most, size)

    def _cut(self, run: Run) -> list[Run]:
        """The run's parts at the first place where its steps differ, repeats joined."""
        return list(self._repeats(self._segments(run, self.common(run))))

    def _widened(self, parts: list[Run], room: int) -> list[Run]:
        """Runs too long for a panel give way to their parts while there is room, longest first."""
        closed: set[tuple[int, int]] = set()  # too many parts
        while True:
            long = [
                n for n, part in enumerate(parts)
                if part.copies == 1 and part.high - part.low > room
                and (part.low, part.high) not in closed
            ]  # fmt: skip
            if not long:
                return parts
            n = max(long, key=lambda n: (parts[n].high - parts[n].low, -n))
            inner = self._cut(parts[n])
            if len(parts) - 1 + len(inner) > room:
                closed.add((parts[n].low, parts[n].high))
            else:
                parts = [*parts[:n], *inner, *parts[n + 1 :]]

    def common(self, run: Run) -> int:
        """How many leading places all steps of the run share."""
        level = run.level
        first = self.steps[run.low].path
        while level < len(first):
            place = first[level]
            for n in range(run.low, run.high):
                path = self.steps[n].path
                if len(path) <= level or (path[level] is not place and path[level] != place):
                    return level
            level += 1
        return level

    def _segments(self, run: Run, level: int) -> list[Run]:
        """Cuts where the place at `level` changes; steps that have none stand alone."""
        parts: list[Run] = []
        previous: Place | None = None
        for n in range(run.low, run.high):
            path = self.steps[n].path
            place = path[level] if len(path) > level else None
            if parts and place is not None and (place is previous or place == previous):
                parts[-1] = Run(parts[-1].low, n + 1, level + 1)
            else:
                parts.append(Run(n, n + 1, level if place is None else level + 1))
            previous = place
        return parts

    def _hash(self, low: int, high: int) -> int:
        return (self._hashes[high] - self._hashes[low] * self._powers[high - low]) % _MODULUS

    def _repeats(self, parts: list[Run]) -> Iterator[Run]:
        """Joins neighbouring equal stretches of runs into one run with copies."""
        tokens = [self._hash(part.low, part.high) for part in parts]
        following = _following(tokens)
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
        """A repeat that begins with run `n`, and how many runs it takes; None for none."""
        low = parts[n].low
        again = following[n]
        for _ in range(_TRIES):
            if again < 0:
                return None
            period, size = again - n, parts[again].low - low
            copies = self._copies(low, size, parts[-1].high)
            # The last copy must end where a run ends.
            while copies > 1 and parts[n + period * copies - 1].high != low + size * copies:
                copies -= 1
            if copies > 1 and size * copies > 2:
                level = min(part.level for part in parts[n:again]) - (period > 1)
                return Run(low, low + size * copies, max(0, level), copies), period * copies
            again = following[again]
        return None

    def _copies(self, low: int, size: int, end: int) -> int:
        """How many equal and equally wired stretches of `size` steps stand from `low` on."""
        wanted = self._hash(low, low + size)
        copies = 1
        while (
            low + size * (copies + 1) <= end
            and self._hash(low + size * copies, low + size * (copies + 1)) == wanted
            and self._wired_alike(low, size, copies)
        ):
            copies += 1
        return copies

    def _wired_alike(self, low: int, size: int, copy: int) -> bool:
        """Whether a copy reads what the copy before it reads, each seen from itself.

        A read is (copies back, position). Where the copy before has a read from outside,
        this one may read the first copy: the copy before would have read the one before that.
        """
        for n in range(size):
            one = self._wires(low, size, copy - 1, n)
            two = self._wires(low, size, copy, n)
            for a, b in zip(one, two, strict=True):
                if a != b and not (a is None and b is not None and b[0] == copy):
                    return False
        return True

    def _wires(self, low: int, size: int, copy: int, n: int) -> list[tuple[int, int] | None]:
        start = low + copy * size
        return [
            None if read < low else (copy - (read - low) // size, (read - low) % size)
            for read in self.steps[start + n].reads
        ]

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
            bundles.append(Run(low, high, level, (high - low) // size if size else 1))
    return bundles
