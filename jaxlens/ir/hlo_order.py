"""Puts a module's computations in reading order: the entry first, callers before callees."""

from collections.abc import Mapping

from jaxlens.ir.graph import Region


def callers_first(regions: Mapping[str, Region], entry: str) -> dict[str, Region]:
    """Orders the regions; what the entry never reaches stands after what calls it.

    A region is placed once all it calls are placed, from the end (reverse postorder).
    Where text makes computations call each other in a circle, the circle is cut somewhere.
    """
    placed: dict[str, None] = {}
    reached = _reached(regions, entry)
    for start in [name for name in regions if name not in reached] + [entry]:
        _place(start, regions, placed)
    order = [name for name in reversed(placed) if name != entry]
    return {name: regions[name] for name in [entry, *order]}


def _calls(region: Region, regions: Mapping[str, Region]) -> list[str]:
    """Names it calls, last first, so that the first called stands first in the end."""
    called = {name: None for node in region.nodes for name in node.regions if name in regions}
    return list(reversed(called))


def _reached(regions: Mapping[str, Region], entry: str) -> set[str]:
    seen, pending = {entry}, [entry]
    while pending:
        for name in _calls(regions[pending.pop()], regions):
            if name not in seen:
                seen.add(name)
                pending.append(name)
    return seen


def _place(start: str, regions: Mapping[str, Region], placed: dict[str, None]) -> None:
    if start in placed:
        return
    open_: set[str] = {start}
    path = [(start, iter(_calls(regions[start], regions)))]
    while path:
        name, calls = path[-1]
        for called in calls:
            if called not in placed and called not in open_:
                open_.add(called)
                path.append((called, iter(_calls(regions[called], regions))))
                break
        else:
            placed[name] = None
            path.pop()
