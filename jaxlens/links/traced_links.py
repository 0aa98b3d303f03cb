"""Call stacks and transforms of the equations of a traced program, by groups of equations.

An unrolled program has thousands of equations at some hundred places, so each place of each body
is computed once.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from jaxlens.ir.columns import columns
from jaxlens.ir.graph import Module
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
    found = groups(program)
    numbers = {key: n for n, key in enumerate(found)}
    group: dict[str, int] = {}
    for name, region in program.regions.items():
        group.update(zip(region.ids, [numbers[name, n] for n in region.place], strict=True))
    ids = [f"e{n}" for n in range(len(group))]
    if not all(map(group.__contains__, ids)):
        return None
    runs = array("i")
    for n, run in groupby(map(group.__getitem__, ids)):
        runs.extend((sum(1 for _ in run), n))
    return TracedLinks(runs, tuple(found.values()))
