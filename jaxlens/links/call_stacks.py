"""The lines of Python that an equation or an atom came from, innermost first.

JAX keeps the whole stack of an equation that was traced in place. The equations of a function
that several places call (a jitted one) are traced once, so their stacks end in the first call:
that end is cut off, and each atom gets the stack of the call that leads to it. Equations of
JAX's own functions have no frames at all and get those of their call in the same way.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from jaxlens.ir import graph
from jaxlens.ir.graph import Module, Span
from jaxlens.links.atoms import Atoms

Stack = tuple[Span, ...]

MOST = 64  # stacks kept of a body that more calls than that lead to


@dataclass(frozen=True, slots=True)
class Stacks:
    """Stacks of equations and atoms.

    Attributes:
        equations: The stack of each equation; of one that several calls reach, the first's.
        atoms: The stacks of each atom: more than one where it stands for several calls.
    """

    equations: Mapping[str, Stack]
    atoms: tuple[tuple[Stack, ...], ...]


def owner(stack: Stack) -> Span | None:
    """The innermost line that is not a library's; else the innermost there is."""
    return graph.owner(stack)


def stacks(jaxpr: Module, atoms: Atoms) -> Stacks:
    """Finds the stacks of all equations and atoms; equal ones are mostly one object."""
    local, around = _frames(jaxpr)
    number = {path[0]: n for n, path in enumerate(atoms.paths) if len(path) == 1}
    memo: dict[tuple[int, ...], tuple[Stack, ...]] = {}  # by identity: hashing stacks takes long

    def known(chain: Sequence[str]) -> tuple[Stack, ...]:
        """The stacks of an equation at the end of a chain of calls."""
        outside = around[chain[0]]
        key = (id(outside), *[id(local[one]) for one in chain])
        if key not in memo:
            frames = tuple(span for one in reversed(chain) for span in local[one])
            memo[key] = tuple(dict.fromkeys(frames + outer for outer in outside))
        return memo[key]

    stacks_of_atoms = []
    for path, equations in zip(atoms.paths, atoms.equations, strict=True):
        calls = _calls(path, number, atoms)
        parts = [known(tuple(dict.fromkeys((*calls, *last)))) for last in equations]
        if len(parts) == 1:
            stacks_of_atoms.append(parts[0])
        else:
            stacks_of_atoms.append(tuple(dict.fromkeys(stack for some in parts for stack in some)))
    return Stacks({id: known((id,))[0] for id in local}, tuple(stacks_of_atoms))


def _calls(path: tuple[str, ...], number: Mapping[str, int], atoms: Atoms) -> list[str]:
    """The equations whose calls lead to an atom, outermost first."""
    callers = (atoms.equations[number[op]] for op in path[:-1])
    return [id for equations in callers if equations for id in equations[0]]


def _frames(jaxpr: Module) -> tuple[dict[str, Stack], dict[str, tuple[Stack, ...]]]:
    """Each equation's frames within its body, and the stacks of the calls of that body."""
    callers: defaultdict[str, list[str]] = defaultdict(list)
    ends: defaultdict[str, set[Stack]] = defaultdict(set)
    local: dict[str, Stack] = {}
    around: dict[str, tuple[Stack, ...]] = {}
    for region in jaxpr.regions.values():  # callers before callees
        outer = (local[c] + rest for c in callers[region.name] for rest in around[c])
        bodies = tuple(dict.fromkeys(islice(outer, MOST))) or ((),)
        cut: dict[Stack, Stack] = {}
        cuts: dict[int, tuple[Stack, Stack]] = {}  # whole and cut, by identity
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
    """A stack without the end that is the stack of a call of its body."""
    for start in range(len(stack)):
        if stack[start:] in ends:
            return stack[:start]
    return stack
