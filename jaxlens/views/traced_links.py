"""Builds compact links of a program that was only traced: groups of equations (`Alike`).

Nothing was lowered, so the atom of `eN` is N and need not be listed. A group has the equations
with equal call stacks and transforms; a train step of 18,104 equations has 120 groups, and only
those and the run-length encoding of their order are in the output. In Python, the `Web` has the
same mappings as any other, made on first access.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import accumulate, chain, repeat

from jaxlens.ir.lazy import LazyDict
from jaxlens.links.call_stacks import owner
from jaxlens.links.traced_links import Group, TracedLinks
from jaxlens.render.link_data import Alike, Web


def web(traced: TracedLinks) -> Web:
    """Returns the links of equations to Python lines, in time linear in the number of runs."""
    alike = _alike(traced)
    return Web(
        atoms={"jaxpr": LazyDict(lambda: {f"e{n}": (n,) for n in range(alike.size)})},
        lines=LazyDict(lambda: _atoms(alike, alike.lines)),
        calls=LazyDict(lambda: _atoms(alike, alike.calls)),
        stacks=alike.stacks,
        stack=LazyDict(lambda: {id: n for id, g in _every(alike) if (n := alike.stack[g]) >= 0}),
        made=LazyDict(lambda: {id: names for id, g in _every(alike) if (names := alike.made[g])}),
        alike=alike,
    )


def _alike(traced: TracedLinks) -> Alike:
    """Returns the groups with their lines, calls, stacks and transforms as text."""
    lines: defaultdict[str, list[int]] = defaultdict(list)
    calls: defaultdict[str, list[int]] = defaultdict(list)
    stacks: dict[tuple[str, ...], int] = {}
    stack: list[int] = []
    for number, group in enumerate(traced.groups):
        owners = {str(span) for every in group.stacks if (span := owner(every))}
        passed = {str(s) for every in group.stacks for s in every if not s.library}
        for found, names in ((lines, owners), (calls, passed - owners)):
            for name in names:
                found[name].append(number)
        words = _words(group)
        stack.append(stacks.setdefault(words, len(stacks)) if words else -1)
    return Alike(
        runs=traced.runs,
        lines={name: tuple(lines[name]) for name in sorted(lines)},
        calls={name: tuple(calls[name]) for name in sorted(calls)},
        stacks=tuple(stacks),
        stack=tuple(stack),
        made=tuple(group.made for group in traced.groups),
    )


def _words(group: Group) -> tuple[str, ...]:
    """Returns the group's first call stack as text, from the owner outward."""
    first = group.stacks[0]
    start = first.index(span) if (span := owner(first)) else 0
    return tuple(f"{s} in {s.function}" if s.function else str(s) for s in first[start:])


def _every(alike: Alike) -> Iterator[tuple[str, int]]:
    """Yields each equation's id with the index of its group."""
    groups = chain.from_iterable(map(repeat, alike.runs[1::2], alike.runs[::2]))
    return ((f"e{n}", group) for n, group in enumerate(groups))


def _atoms(alike: Alike, lines: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Returns atoms of equations by line, from groups by line."""
    starts = [0, *accumulate(alike.runs[::2])]
    members: defaultdict[int, list[int]] = defaultdict(list)
    for start, count, group in zip(starts, alike.runs[::2], alike.runs[1::2], strict=False):
        members[group] += range(start, start + count)
    return {
        name: tuple(sorted(chain.from_iterable(map(members.__getitem__, groups))))
        for name, groups in lines.items()
    }
