"""The web of a program that was only traced, in short: equations by what they have in common.

Nothing was lowered, so the atom of `eN` is N and nothing need be listed: a train step of 18,104
equations is 120 groups and the order in which they follow each other (`Alike`), which is what
travels. Who reads the web in Python sees mappings as in any other, made when first looked at.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import accumulate, chain, repeat

from jaxlens.ir.lazy import LazyDict
from jaxlens.links.call_stacks import owner
from jaxlens.links.traced_links import Group, TracedLinks
from jaxlens.render.link_data import Alike, Web


def web(traced: TracedLinks) -> Web:
    """Links of equations with lines of Python, in time linear in their runs."""
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
    """What the groups say, in words."""
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
    """The first stack, from the owner outward."""
    first = group.stacks[0]
    start = first.index(span) if (span := owner(first)) else 0
    return tuple(f"{s} in {s.function}" if s.function else str(s) for s in first[start:])


def _every(alike: Alike) -> Iterator[tuple[str, int]]:
    """Each equation with its group."""
    groups = chain.from_iterable(map(repeat, alike.runs[1::2], alike.runs[::2]))
    return ((f"e{n}", group) for n, group in enumerate(groups))


def _atoms(alike: Alike, lines: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Equations instead of groups."""
    starts = [0, *accumulate(alike.runs[::2])]
    members: defaultdict[int, list[int]] = defaultdict(list)
    for start, count, group in zip(starts, alike.runs[::2], alike.runs[1::2], strict=False):
        members[group] += range(start, start + count)
    return {
        name: tuple(sorted(chain.from_iterable(map(members.__getitem__, groups))))
        for name, groups in lines.items()
    }
