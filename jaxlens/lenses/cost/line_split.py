"""What one line's work is made of, where that line does nearly all: the first split that tells.

Name scopes come first, since people and module libraries write them; then the lines on the call
stack, callers' and libraries'; then primitives.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from jaxlens.ir.graph import Module, Node

NEARLY_ALL = 0.9  # share of one part above which a split says nothing new
_SHOWN = 3
_LEAST = 0.005  # share of a part that is worth naming
_WRAPPED = re.compile(r"\w+\((.*)\)")
_WRAPS = 12  # transforms round one part of a scope

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LinePart:
    """A part of the whole: a scope, a line with its function, or a primitive."""

    name: str
    share: float


def parts(module: Module, weights: Mapping[str, int]) -> tuple[LinePart, ...]:
    """The parts of a program, largest first; one part where nothing splits it.

    Args:
        module: A jaxpr.
        weights: What each equation does, by id.
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


def told(found: Sequence[LinePart]) -> str:
    """`62% in linear_1, 31% in linear_0, 7% in 2 others`; "all in dot_general" for one part."""
    if not found:
        return ""
    if found[0].share > 0.995:
        return f"all in {found[0].name}"
    shown = [part for part in found[:_SHOWN] if part.share >= _LEAST]
    words = [f"{part.share:.0%} in {part.name}" for part in shown]
    rest = 1 - sum(part.share for part in shown)
    if rest >= _LEAST:
        others = len(found) - len(shown)
        words.append(f"{rest:.0%} in {others} others" if others > 1 else f"{rest:.0%} elsewhere")
    return ", ".join(words)


def _paths(module: Module, path_of: Callable[[Node], Path]) -> Iterator[tuple[Node, Path]]:
    """Every equation with its path, the path of the calls around its body before its own.

    Of a body with several callers only what their paths have in common is known.
    """
    around: dict[str, Path] = {module.entry: ()}
    for region in module.regions.values():  # callers before callees
        outer = around.get(region.name, ())
        for node in region.nodes:
            path = _joined(outer, path_of(node))
            yield node, path
            for name in node.regions:
                known = around.get(name)
                around[name] = path if known is None else _common(known, path)


def _joined(outer: Path, own: Path) -> Path:
    """A path after that of the calls around it, unless it holds these calls itself."""
    return own if outer and own[:1] == outer[:1] else (*outer, *own)


def _common(one: Path, other: Path) -> Path:
    pairs = enumerate(zip(one, other, strict=False))
    return one[: next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))]


def _split(sums: Mapping[Path, int], whole: int) -> list[tuple[str, int]]:
    """The children of the first node, from the outermost on, of which no child has nearly all."""
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
    # A split in which most has no name says less than the next kind of split.
    return [] if children[""] > whole / 2 else named


def _scopes(node: Node) -> Path:
    """The parts of a name stack, out of the transforms that JAX wrote round them."""
    found = []
    for part in node.scope.split(";")[0].split("/"):
        for _ in range(_WRAPS):
            if match := _WRAPPED.fullmatch(part):
                part = match[1]
        if part:
            found.append(part)
    return tuple(found)


def _frames(node: Node) -> Path:
    """The call stack, outermost line first."""
    return tuple(
        f"{span} ({span.function.rpartition('<locals>.')[2]})" if span.function else str(span)
        for span in reversed(node.spans)
    )
