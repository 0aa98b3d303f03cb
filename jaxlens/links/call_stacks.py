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

from jaxlens.ir import graph
from jaxlens.ir.graph import Module, Span
from jaxlens.links.atoms import Atoms

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


def owner(stack: Stack) -> Span | None:
    """Returns the innermost line outside libraries, or else the innermost line."""
    return graph.owner(stack)


def stacks(jaxpr: Module, atoms: Atoms) -> Stacks:
    """Returns the stacks of all equations and atoms; equal stacks are mostly one object."""
    local, around = _frames(jaxpr)
    number = {path[0]: n for n, path in enumerate(atoms.paths) if len(path) == 1}
    memo: dict[tuple[int, ...], tuple[Stack, ...]] = {}  # by identity: hashing a stack is slow

    def stacks_of(path: Sequence[str]) -> tuple[Stack, ...]:
        """Returns the stacks of the last equation of a path of calls."""
        outside = around[path[0]]
        key = (id(outside), *[id(local[equation]) for equation in path])
        if key not in memo:
            frames = tuple(span for equation in reversed(path) for span in local[equation])
            memo[key] = tuple(dict.fromkeys(frames + outer for outer in outside))
        return memo[key]

    stacks_of_atoms = []
    for path, equations in zip(atoms.paths, atoms.equations, strict=True):
        callers = (atoms.equations[number[op]] for op in path[:-1])  # outermost first
        calls = [id for caller in callers if caller for id in caller[0]]
        parts = [stacks_of(tuple(dict.fromkeys((*calls, *last)))) for last in equations]
        if len(parts) != 1:
            parts = [tuple(dict.fromkeys(chain.from_iterable(parts)))]
        stacks_of_atoms += parts
    return Stacks({id: stacks_of((id,))[0] for id in local}, tuple(stacks_of_atoms))


def _frames(jaxpr: Module) -> tuple[dict[str, Stack], dict[str, tuple[Stack, ...]]]:
    """Returns each equation's frames within its body, and the stacks of that body's calls."""
    callers: defaultdict[str, list[str]] = defaultdict(list)
    ends: defaultdict[str, set[Stack]] = defaultdict(set)
    local: dict[str, Stack] = {}
    around: dict[str, tuple[Stack, ...]] = {}
    for region in jaxpr.regions.values():  # callers before callees
        outer = (local[c] + rest for c in callers[region.name] for rest in around[c])
        bodies = tuple(dict.fromkeys(islice(outer, MOST))) or ((),)
        cut: dict[Stack, Stack] = {}
        cuts: dict[int, tuple[Stack, Stack]] = {}  # the whole stack and the cut one, by identity
        for node in region.nodes:
            spans = node.spans
            if id(spans) not in cuts:
                if spans not in cut:
                    cut[spans] = within(spans, ends[region.name])
                cuts[id(spans)] = spans, cut[spans]
            local[node.id] = cuts[id(spans)][1]
            around[node.id] = bodies
            for name in node.regions:
                callers[name].append(node.id)
                ends[name].add(spans)
    return local, around


def within(stack: Stack, ends: set[Stack]) -> Stack:
    """Returns a stack without the frames of a call of its body, which it ends in."""
    for start in range(len(stack)):
        if stack[start:] in ends:
            return stack[:start]
    return stack
