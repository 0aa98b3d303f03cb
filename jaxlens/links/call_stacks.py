"""The call stacks of equations and atoms: source lines, innermost first.

JAX records the whole stack of an equation. The body of a jitted function is traced once, at its
first call, so the stacks of its equations end in the frames of that call. That end is cut off, and
each atom gets the frames of the call that leads to it:

    e5 = sin  in f:  model.py:3, model.py:9      f is called at model.py:9 and model.py:10
    e5 cut:          model.py:3                  its stacks: (3, 9) and (3, 10)

Equations of JAX's own functions have no frames and get those of their call in the same way.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from jaxlens.ir.columns import ProgramColumns, columns
from jaxlens.ir.graph import Module, Span
from jaxlens.links.atoms import Atoms
from jaxlens.links.name_stack import around_calls, transforms

Stack = tuple[Span, ...]

MOST = 64  # stacks of one body; those of further calls are dropped


@dataclass(frozen=True, slots=True)
class Stacks:
    """The call stacks of equations and atoms.

    Attributes:
        equations: The stack of each equation; through the first call, if there are several.
        atoms: The stacks of each atom: more than one if several calls share the atom.
    """

    equations: Mapping[str, Stack]
    atoms: tuple[tuple[Stack, ...], ...]


@dataclass(frozen=True, slots=True)
class Group:
    """The equations of one place in one body.

    Attributes:
        local: Their frames within the body, innermost first.
        around: The stacks of the body's calls; an empty one for the program's own.
        stacks: Their call stacks, both joined: more than one if the body has several calls.
        made: The transforms that produced them, outermost first.
    """

    local: Stack
    around: tuple[Stack, ...]
    stacks: tuple[Stack, ...]
    made: tuple[str, ...]


def groups(program: ProgramColumns) -> dict[tuple[str, int], Group]:
    """Returns the group of each place of each body: an unrolled program has few places."""
    calls: defaultdict[str, list[Group]] = defaultdict(list)
    ends: defaultdict[str, set[Stack]] = defaultdict(set)
    around: dict[str, tuple[str, ...]] = {}
    found: dict[tuple[str, int], Group] = {}
    for name, region in program.regions.items():  # callers before callees
        outside = (stack for group in calls[name] for stack in group.stacks)
        bodies = tuple(dict.fromkeys(islice(outside, MOST))) or ((),)
        cut: dict[Stack, Stack] = {}
        for n in dict.fromkeys(region.place):
            place = program.places[n]
            if place.spans not in cut:
                cut[place.spans] = _within(place.spans, ends[name])
            local = cut[place.spans]
            stacks = tuple(dict.fromkeys(local + outer for outer in bodies))
            made = (*around.get(name, ()), *transforms(place.scope))
            found[name, n] = Group(local, bodies, stacks, tuple(dict.fromkeys(made)))
        for step, inner in region.calls.items():
            n, opcode = region.place[step], program.opcodes[region.kind[step]]
            for callee in inner:
                calls[callee].append(found[name, n])
                ends[callee].add(program.places[n].spans)
                around.setdefault(callee, around_calls(found[name, n].made, opcode))
    return found


def by_equation(jaxpr: Module) -> dict[str, Group]:
    """Returns the group of each equation."""
    program = columns(jaxpr)
    found = groups(program)
    return {
        ident: found[name, n]
        for name, region in program.regions.items()
        for ident, n in zip(region.ids, region.place, strict=True)
    }


def equation_transforms(jaxpr: Module) -> dict[str, tuple[str, ...]]:
    """Returns the transforms that produced each equation, those of the calls around it first."""
    return {ident: group.made for ident, group in by_equation(jaxpr).items() if group.made}


def stacks(jaxpr: Module, atoms: Atoms) -> Stacks:
    """Returns the stacks of all equations and atoms; equal stacks are mostly one object."""
    of = by_equation(jaxpr)
    number = {path[0]: n for n, path in enumerate(atoms.paths) if len(path) == 1}
    memo: dict[tuple[int, ...], tuple[Stack, ...]] = {}  # by identity: hashing a stack is slow

    def stacks_of(path: Sequence[str]) -> tuple[Stack, ...]:
        """Returns the stacks of the last equation of a path of calls."""
        around = of[path[0]].around
        key = (id(around), *[id(of[equation].local) for equation in path])
        if key not in memo:
            frames = tuple(span for equation in reversed(path) for span in of[equation].local)
            memo[key] = tuple(dict.fromkeys(frames + outer for outer in around))
        return memo[key]

    stacks_of_atoms = []
    for path, equations in zip(atoms.paths, atoms.equations, strict=True):
        callers = (atoms.equations[number[op]] for op in path[:-1])  # outermost first
        calls = [id for caller in callers if caller for id in caller[0]]
        parts = [stacks_of(tuple(dict.fromkeys((*calls, *last)))) for last in equations]
        if len(parts) != 1:
            parts = [tuple(dict.fromkeys(chain.from_iterable(parts)))]
        stacks_of_atoms += parts
    return Stacks({id: group.stacks[0] for id, group in of.items()}, tuple(stacks_of_atoms))


def _within(stack: Stack, ends: set[Stack]) -> Stack:
    """Returns a stack without the frames of a call of its body, which it ends in."""
    for start in range(len(stack)):
        if stack[start:] in ends:
            return stack[:start]
    return stack
