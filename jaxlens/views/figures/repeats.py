"""Joins neighbouring runs with equal equations and equal data flow into one run "x k".

Each copy reads the same values relative to itself as the copy before it. Slices of columns are
compared at once where possible.
"""

import re
from array import array
from collections.abc import Iterator, Sequence

from jaxlens.ir.columns import Columns, Place, Pool, ProgramColumns, repeating
from jaxlens.views.figures.runs import StepRange

_TRIES = 6  # later steps of the same kind that are tried as the start of a repeat


class Repeats:
    """Finds the repeats among runs of one body.

    Args:
        columns: The body.
        program: The program that it belongs to.
        reads: The value of each operand; see `DrawnRegion.reads`.
    """

    def __init__(self, columns: Columns, program: ProgramColumns, reads: Sequence[int]) -> None:
        self._columns, self._reads = columns, reads
        pool: Pool[object] = Pool()
        same = {n: pool.number(_alike(program.places[n])) for n in set(columns.place)}
        self._same = array("i", map(same.__getitem__, columns.place))

    def joined(self, parts: list[StepRange]) -> Iterator[StepRange]:
        """Joins neighbouring equal stretches of runs into one run with copies."""
        kind, same = self._columns.kind, self._same
        following = [-1] * len(parts)  # the next run of the same equations from the same place
        latest: dict[tuple[bytes | int, bytes | int, int], int] = {}
        key: tuple[bytes | int, bytes | int, int]
        for n in range(len(parts) - 1, -1, -1):
            part = parts[n]
            low, high = part.low, part.high
            if high - low == 1:  # most are, in a program without layers
                key = kind[low], same[low], part.copies
            else:
                key = kind[low:high].tobytes(), same[low:high].tobytes(), part.copies
            following[n] = latest.get(key, -1)
            latest[key] = n
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
        self, parts: list[StepRange], following: list[int], n: int
    ) -> tuple[StepRange, int] | None:
        """Returns the longest repeat that begins with run `n`, and its number of runs, if any."""
        low, end = parts[n].low, parts[-1].high
        best: tuple[StepRange, int] | None = None
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
                best = StepRange(low, low + size * copies, max(0, level), copies), period * copies
            again = following[again]
        return best

    def _copies(self, low: int, size: int, end: int, more: int) -> int:
        """Returns the number of equal, equally wired slices of `size` steps from `low` on.

        It is 1 if equal slices, wired or not, have no more than `more` steps in all.
        """
        room = end - size
        most = min(repeating(c, low, size, room) for c in (self._columns.kind, self._same)) // size
        if size * (most + 1) <= more:
            return 1
        read = self._columns.first_operand
        operands = read[low + size] - read[low]
        base = self._columns.first_result[low]
        copies = 1
        while copies <= most:
            before = read[low + (copies - 1) * size]
            ready = repeating(self._columns.distance, before, operands, read[low + most * size])
            again = ready // operands if operands else most + 1 - copies
            # Copies with equal distances that read nothing from outside are wired alike.
            values = self._reads[before : before + again * operands]
            if again and (not values or min(values) >= base):
                copies += min(again, most + 1 - copies)
            elif self._wired_alike(low, size, copies):
                copies += 1
            else:
                break
        return copies

    def _wired_alike(self, low: int, size: int, copy: int) -> bool:
        """Returns whether a copy reads the same as the copy before it, relative to itself.

        What the copy before reads from outside, this one may read from elsewhere outside, or
        from the first copy: the copy before would have read the one before that. Two operands
        that are one value there are one value here.
        """
        columns, reads = self._columns, self._reads
        start, middle = (columns.first_operand[low + n * size] for n in (copy - 1, copy))
        end = 2 * middle - start
        base, first = columns.first_result[low], columns.first_result[low + size]
        image: dict[int, int] = {}  # of each outside value of the copy before, and the inverse
        origin: dict[int, int] = {}
        distances = columns.distance[start:middle], columns.distance[middle:end]
        for c, d, a, b in zip(*distances, reads[start:middle], reads[middle:end], strict=True):
            if c == d and a >= base:
                continue
            if not (c and d) or a >= base or b >= first:
                return False
            if image.setdefault(a, b) != b or origin.setdefault(b, a) != a:
                return False
            if columns.types[a] != columns.types[b]:
                return False
        return True


def _alike(place: Place) -> object:
    """Returns a key equal for equivalent places: numbers in scopes (layer_3) are ignored."""
    frames = ((s.key or s.file, s.line, s.function) for s in place.spans)
    return re.sub(r"\d+", "#", place.scope), *frames
