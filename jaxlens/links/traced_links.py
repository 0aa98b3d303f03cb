"""Call stacks and transforms of the equations of a traced program, by groups of equations.

An unrolled program has thousands of equations at some hundred places, so each place of each body
is computed once.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress, count, islice, pairwise
from operator import ne

from jaxlens.ir.columns import ProgramColumns, columns
from jaxlens.ir.graph import Module
from jaxlens.ir.jaxpr.bodies import Ids
from jaxlens.links.call_stacks import Group, groups


@dataclass(frozen=True, slots=True)
class TracedLinks:
    """The groups of all equations of a program, e0 first.

    Attributes:
        runs: Run-length encoded groups: the number of equations and the group's index, in turn.
        groups: The groups.
    """

    runs: Sequence[int]
    groups: tuple[Group, ...]

    def __len__(self) -> int:
        return sum(self.runs[::2])


def traced(module: Module) -> TracedLinks | None:
    """Returns the groups of a jaxpr; None if its ids are not e0, e1, ... without a gap."""
    program = columns(module)
    stretches = _stretches(program)
    if stretches is None:
        return None
    numbers: dict[tuple[str, int], int] = {}
    runs = array("i")
    for name, places in stretches:
        starts = [0, *compress(count(1), map(ne, places, islice(places, 1, None)))]
        for start, stop in pairwise([*starts, len(places)]):
            runs.append(stop - start)
            runs.append(numbers.setdefault((name, places[start]), len(numbers)))
    return TracedLinks(runs, tuple(map(groups(program).__getitem__, numbers)))


def _stretches(program: ProgramColumns) -> list[tuple[str, Sequence[int]]] | None:
    """Returns the body and places of each range of consecutive ids; None if the ids have a gap.

    The ids of a body have a gap for each body nested in it:

        main: e0 e1 e5 e6, scan's body: e2 e3 e4      (main, e0-e1), (body, e2-e4), (main, e5-e6)
    """
    stretches: list[tuple[int, str, Sequence[int]]] = []
    for region in program.regions.values():
        ids = _numbered(region.ids)
        if ids is None:
            return None
        for first, number, stop in ids.runs():
            if first < stop:
                stretches.append((number, region.name, region.place[first:stop]))
    following = 0
    for number, _, places in sorted(stretches, key=lambda run: run[0]):
        if number != following:
            return None
        following += len(places)
    return [(name, places) for _, name, places in sorted(stretches, key=lambda run: run[0])]


def _numbered(ids: Sequence[str]) -> Ids | None:
    """Returns ids as ranges of numbers; None if they do not have the form e0, e1, ..."""
    if isinstance(ids, Ids):
        return ids
    numbers = Ids()
    for id in ids:
        if id[:1] != "e" or not id[1:].isdecimal():
            return None
        numbers.run_on(int(id[1:]), 1)
    return numbers
