"""Where the equations of a program come from that was only traced, by what they have in common.

An unrolled program has thousands of equations at some hundred places, so each place of each
body is looked at once: the same answers as `stacks` and `made` give one by one.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, count, islice, pairwise
from operator import ne

from jaxlens.ir.columns import Place, ProgramColumns, columns
from jaxlens.ir.graph import Module
from jaxlens.ir.jaxpr.bodies import Ids
from jaxlens.links.call_stacks import MOST, Stack, within
from jaxlens.links.name_stack import around_calls, transforms


@dataclass(frozen=True, slots=True)
class Group:
    """Equations of one place in one body.

    Attributes:
        stacks: Lines of Python that lead to them, innermost first: more than one where several
            calls lead to the body.
        made: The transforms that made them, outermost first.
    """

    stacks: tuple[Stack, ...]
    made: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TracedLinks:
    """All equations of a program, e0 first.

    Attributes:
        runs: How many equations of one group follow each other, and the group's number, in turn.
        groups: The groups.
    """

    runs: Sequence[int]
    groups: tuple[Group, ...]

    def __len__(self) -> int:
        return sum(self.runs[::2])


def traced(module: Module) -> TracedLinks | None:
    """The groups of a jaxpr; None where its ids are not e0, e1, ... without a gap."""
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
    groups = _groups(program)
    return TracedLinks(runs, tuple(map(groups.__getitem__, numbers)))


def _stretches(program: ProgramColumns) -> list[tuple[str, Sequence[int]]] | None:
    """Bodies and places of neighbouring equations, in the order of their ids."""
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
    """Ids as runs of numbers; None where they are others than e0, e1, ..."""
    if isinstance(ids, Ids):
        return ids
    numbers = Ids()
    for id in ids:
        if id[:1] != "e" or not id[1:].isdecimal():
            return None
        numbers.run_on(int(id[1:]), 1)
    return numbers


def _groups(program: ProgramColumns) -> dict[tuple[str, int], Group]:
    """What is known of each place of each body; bodies come after what calls them."""
    calls: defaultdict[str, list[tuple[Stack, tuple[Stack, ...]]]] = defaultdict(list)
    ends: defaultdict[str, set[Stack]] = defaultdict(set)
    around: dict[str, tuple[str, ...]] = {}
    groups: dict[tuple[str, int], Group] = {}
    for name, region in program.regions.items():
        bodies = tuple(dict.fromkeys(islice(_outer(calls[name]), MOST))) or ((),)
        local: dict[int, Stack] = {}
        for n in dict.fromkeys(region.place):
            place = program.places[n]
            local[n] = within(place.spans, ends[name])
            stacks = tuple(dict.fromkeys(local[n] + rest for rest in bodies))
            groups[name, n] = Group(stacks, _made(place, around.get(name, ())))
        for step, inner in region.calls.items():
            n = region.place[step]
            opcode = program.opcodes[region.kind[step]]
            for callee in inner:
                calls[callee].append((local[n], bodies))
                ends[callee].add(program.places[n].spans)
                around.setdefault(callee, around_calls(groups[name, n].made, opcode))
    return groups


def _outer(calls: Sequence[tuple[Stack, tuple[Stack, ...]]]) -> Iterator[Stack]:
    return (local + rest for local, bodies in calls for rest in bodies)


def _made(place: Place, outer: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*outer, *transforms(place.scope))))
