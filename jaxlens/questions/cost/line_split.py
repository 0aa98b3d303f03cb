"""Splits the flops of a program into parts, for a report whose first line has nearly all of them.

Splits by name scopes first, because users and module libraries write them; then by the lines of the
call stack, those of callers and libraries included; then by primitives. The first split without a
part of nearly all flops is used.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from jaxlens.ir.graph import Module, Node

NEARLY_ALL = 0.9  # share of one part above which a split is not used
_SHOWN = 3
_LEAST = 0.005  # share below which a part is not named
_WRAPPED = re.compile(r"\w+\((.*)\)")
_WRAPS = 12  # nested transforms around one component of a name stack

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LinePart:
    """A part of the flops: those of a scope, of a line with its function, or of a primitive."""

    name: str
    share: float


def parts(module: Module, weights: Mapping[str, int]) -> tuple[LinePart, ...]:
    """Returns the parts of a program, largest first; one part where no split separates it.

    Args:
        module: A jaxpr.
        weights: Flops by equation id.
    """
    whole = sum(weights.values())
    if not whole:
        return ()
    best: tuple[LinePart, ...] = ()
    primitives = ((node, (node.opcode,)) for node in module.nodes())
    for paths in (_paths(module, _scopes), _paths(module, _frames), primitives):
        sums: Counter[Path] = Counter()
        for node, path in paths:
            if weights.get(node.id):
                sums[path] += weights[node.id]
        best = tuple(LinePart(name, n / whole) for name, n in _split(sums, whole))
        if best and best[0].share <= NEARLY_ALL:
            return best
    return best


def sentence(split: Sequence[LinePart]) -> str:
    """Returns `62% in linear_1, 31% in linear_0, 7% in 2 others`, or `all in dot_general`."""
    if not split:
        return ""
    if split[0].share > 0.995:
        return f"all in {split[0].name}"
    shown = [part for part in split[:_SHOWN] if part.share >= _LEAST]
    texts = [f"{part.share:.0%} in {part.name}" for part in shown]
    rest, left = 1 - sum(part.share for part in shown), len(split) - len(shown)
    if rest >= _LEAST:
        texts.append(f"{rest:.0%} in {left} others" if left > 1 else f"{rest:.0%} elsewhere")
    return ", ".join(texts)


def _paths(module: Module, path_of: Callable[[Node], Path]) -> Iterator[tuple[Node, Path]]:
    """Yields every equation with its path, prefixed by the path of the calls that reach it.

    For a body with several callers, the prefix is the common prefix of their paths.
    """
    around: dict[str, Path] = {module.entry: ()}
    for region in module.regions.values():  # callers before callees
        outer = around.get(region.name, ())
        for node in region.nodes:
            path = path_of(node)
            if not outer or path[:1] != outer[:1]:  # a path can start with that of its callers
                path = (*outer, *path)
            yield node, path
            for name in node.regions:
                pairs = zip(around.get(name, path), path, strict=False)
                common = takewhile(lambda pair: pair[0] == pair[1], pairs)
                around[name] = tuple(component for component, _ in common)


def _split(sums: Mapping[Path, int], whole: int) -> list[tuple[str, int]]:
    """Returns the children of the outermost tree node of which no child has nearly all flops.

    The paths form a tree. The search goes down while one child has nearly all flops:

        model/layer1 60, model/layer2 40    "model" has all, so the split is layer1, layer2
    """
    level = 0
    inside = dict(sums)
    while True:
        children: Counter[str] = Counter()
        for path, n in inside.items():
            children[path[level] if len(path) > level else ""] += n
        name, most = max(children.items(), key=lambda pair: (pair[1], pair[0]))
        deeper = {p: n for p, n in inside.items() if len(p) > level + 1 and p[level] == name}
        if most <= NEARLY_ALL * whole or not deeper or not name:
            break
        if sum(deeper.values()) <= NEARLY_ALL * whole:
            break
        inside, level = deeper, level + 1
    if not any(children):
        return []
    named = sorted(((n or "no name", k) for n, k in children.items()), key=lambda x: (-x[1], x[0]))
    # If most flops are in paths that end here, the next kind of split says more.
    return [] if children[""] > whole / 2 else named


def _scopes(node: Node) -> Path:
    """Returns the modules that were called, else the components of the name stack.

    They are without transforms: `jvp(layer)` gives `layer`.
    """
    if node.modules:
        return node.modules
    components = []
    for component in node.scope.split(";")[0].split("/"):
        for _ in range(_WRAPS):
            if match := _WRAPPED.fullmatch(component):
                component = match[1]
        if component:
            components.append(component)
    return tuple(components)


def _frames(node: Node) -> Path:
    """Returns the lines of the call stack, outermost first."""
    return tuple(
        f"{span} ({span.function.rpartition('<locals>.')[2]})" if span.function else str(span)
        for span in reversed(node.spans)
    )
