"""Reorders a long computation so that instructions of one transform are consecutive.

XLA's schedule interleaves a train step's forward ops, backward ops and updates. Folding
(`fold.py`) joins neighbours, so this module finds another topological order: while an instruction
of the current transform is ready, the first such in XLA's order comes next. An instruction without
frames (made by XLA, or merged) has those of its fused instructions or operands. O(n log n).

    XLA's order    fwd.1 bwd.1 fwd.2 bwd.2      (fwd.2 does not read bwd.1)
    here           fwd.1 fwd.2 bwd.1 bwd.2
"""

import heapq
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaxlens.ir.graph import Module, Node, Span

_INLINED = re.compile(r"\bjit\([^()]*\)/?")


@dataclass(frozen=True, slots=True)
class SourcePath:
    """The transforms and frames of an instruction, which folding compares."""

    scope: str
    spans: tuple[Span, ...]


def origins(
    nodes: Sequence[Node], reads: Sequence[Sequence[int]], module: Module
) -> list[SourcePath]:
    """Returns the source path of each instruction, or of its fused instructions or operands.

    Args:
        nodes: Instructions in program order.
        reads: Operands of each, as indices of `nodes`.
        module: The module that has their computations.
    """
    paths: list[SourcePath] = []
    for n, node in enumerate(nodes):
        path = SourcePath(_transform(node.scope), node.spans)
        if not path.spans:
            inner = (m for name in node.regions[:1] for m in reversed(module.regions[name].nodes))
            path = next((SourcePath(_transform(m.scope), m.spans) for m in inner if m.spans), path)
        if not path.spans and reads[n]:
            path = paths[max(reads[n])]
        paths.append(path)
    return paths


def _transform(scope: str) -> str:
    """Returns `transpose(jvp())` for `jit(step)/transpose(jvp(jit(f)))/mul`; of `;`, the first."""
    return _INLINED.sub("", scope.partition(";")[0]).rpartition("/")[0]


def gathered(reads: Sequence[Sequence[int]], places: Sequence[SourcePath]) -> list[int]:
    """Returns a topological order that keeps instructions of one transform together."""
    readers: list[list[int]] = [[] for _ in reads]
    missing = []
    for n, row in enumerate(reads):
        makers = set(row)
        missing.append(len(makers))
        for maker in makers:
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
    """Returns such an order, as indices of `nodes`, with the source path of each.

    Args:
        nodes: Instructions in program order.
        values: Values that each reads.
        makers: Id of the node that makes each value.
        module: The module that has their computations.
    """
    place = {node.id: n for n, node in enumerate(nodes)}
    reads = [[place[id] for name in row if (id := makers.get(name)) in place] for row in values]
    paths = origins(nodes, reads, module)
    return [(n, paths[n]) for n in gathered(reads, paths)]
