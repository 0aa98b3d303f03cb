"""Puts a module's computations in reading order: the entry first, callers before callees."""

from collections.abc import Iterable, Mapping

from jaxlens.ir.graph import Region


def callers_first(regions: Mapping[str, Region], entry: str) -> dict[str, Region]:
    """Orders the regions by what their nodes call."""
    calls = {
        name: [called for node in region.nodes for called in node.regions]
        for name, region in regions.items()
    }
    return in_order(regions, calls, entry)


def in_order(
    regions: Mapping[str, Region], calls: Mapping[str, Iterable[str]], entry: str
) -> dict[str, Region]:
    """Orders the regions; what the entry never reaches stands after what calls it.

    A region is placed once all it calls are placed, from the end (reverse postorder).
    Where text makes computations call each other in a circle, the circle is cut somewhere.
    Of several that a region calls, the first called stands first.
    """
    edges = {
        name: list(reversed({called: None for called in calls[name] if called in regions}))
        for name in regions
    }
    placed: dict[str, None] = {}
    reached = _reached(edges, entry)
    for start in [name for name in regions if name not in reached] + [entry]:
        _place(start, edges, placed)
    order = [name for name in reversed(placed) if name != entry]
    return {name: regions[name] for name in [entry, *order]}


def _reached(edges: Mapping[str, list[str]], entry: str) -> set[str]:
    seen, pending = {entry}, [entry]
    while pending:
        for name in edges[pending.pop()]:
            if name not in seen:
                seen.add(name)
                pending.append(name)
    return seen


def _place(start: str, edges: Mapping[str, list[str]], placed: dict[str, None]) -> None:
    if start in placed:
        return
    open_: set[str] = {start}
    path = [(start, iter(edges[start]))]
    while path:
        name, calls = path[-1]
        for called in calls:
            if called not in placed and called not in open_:
                open_.add(called)
                path.append((called, iter(edges[called])))
                break
        else:
            placed[name] = None
            path.pop()
