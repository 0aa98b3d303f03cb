"""Orders a long computation so that what comes from one place stands together.

XLA schedules a train step's forward ops, backward ops and updates as memory has room for
them, one among the other. Folding (`fold.py`) takes neighbours, so here they are put
in another order that is just as possible: as long as some instruction of the same transform
can come next, the first such in XLA's order does. An instruction without a place (XLA made
it, or merged several) has that of what it holds or reads. The work is n log n.
"""

import heapq
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaxlens.ir.graph import Module, Node, Span

_INLINED = re.compile(r"\bjit\([^()]*\)/?")


@dataclass(frozen=True, slots=True)
class SourcePath:
    """Where an instruction comes from, as far as folding goes: transforms and frames."""

    scope: str
    spans: tuple[Span, ...]


def origins(
    nodes: Sequence[Node], reads: Sequence[Sequence[int]], module: Module
) -> list[SourcePath]:
    """The place of each instruction, or of what it holds or reads.

    Args:
        nodes: In program order.
        reads: For each, the nodes that it reads, by place in `nodes`.
        module: Where their computations are.
    """
    found: list[SourcePath] = []
    for n, node in enumerate(nodes):
        own = SourcePath(_transform(node.scope), node.spans)
        if not own.spans:
            held = (m for name in node.regions[:1] for m in reversed(module.regions[name].nodes))
            own = next((SourcePath(_transform(m.scope), m.spans) for m in held if m.spans), own)
        if not own.spans and reads[n]:
            own = found[max(reads[n])]
        found.append(own)
    return found


def _transform(scope: str) -> str:
    """`transpose(jvp())` of `jit(step)/transpose(jvp(jit(f)))/mul`; merged ones: the first's."""
    return _INLINED.sub("", scope.partition(";")[0]).rpartition("/")[0]


def gathered(reads: Sequence[Sequence[int]], places: Sequence[SourcePath]) -> list[int]:
    """An order in which each comes after what it reads, with those of one transform together."""
    readers: list[list[int]] = [[] for _ in reads]
    missing = []
    for n, row in enumerate(reads):
        wanted = set(row)
        missing.append(len(wanted))
        for maker in wanted:
            readers[maker].append(n)
    ready: dict[str, list[int]] = {}
    order: list[int] = []
    for n, count in enumerate(missing):
        if not count:
            ready.setdefault(places[n].scope, []).append(n)
    current = ""
    while ready:
        if current not in ready:
            current = min(ready, key=lambda scope: ready[scope][0])
        n = heapq.heappop(ready[current])
        order.append(n)
        for reader in readers[n]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready.setdefault(places[reader].scope, []), reader)
        if not ready[current]:
            del ready[current]
    return order


def together(
    nodes: Sequence[Node],
    values: Sequence[Sequence[str]],
    makers: Mapping[str, str],
    module: Module,
) -> list[tuple[int, SourcePath]]:
    """Such an order, as places in `nodes`, and where folding is to take each to be from.

    Args:
        nodes: In program order.
        values: What each reads.
        makers: Id of the node that makes each value.
        module: Where their computations are.
    """
    place = {node.id: n for n, node in enumerate(nodes)}
    reads = [[place[id] for name in row if (id := makers.get(name)) in place] for row in values]
    found = origins(nodes, reads, module)
    return [(n, found[n]) for n in gathered(reads, found)]
