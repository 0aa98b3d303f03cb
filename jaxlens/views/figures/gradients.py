"""Finds the equations that come after the gradients: an optimiser's update, most often.

JAX writes `transpose(...)` into the name stack of every equation of a backward pass. An equation
comes after the gradients if it is none of these, and reads a value that one of them computed,
directly or through other equations:

    g = mul c x       name stack "transpose(jvp())": a gradient
    s = mul 0.1 g     after the gradients
    p2 = sub p s      after the gradients
    n2 = add n 1      unknown: it reads no gradient
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from jaxlens.ir.columns import Columns, ProgramColumns

_BACKWARD = "transpose("
_Results = Mapping[str, frozenset[int]]  # by body: positions of results that come of gradients


def after_gradients(program: ProgramColumns) -> dict[str, frozenset[int]]:
    """Returns the steps of each body that come after the gradients; none for one without any.

    A body belongs to them where all its calls do.
    """
    if not any(_BACKWARD in place.scope for place in program.places):
        return {}
    returned: dict[str, frozenset[int]] = {}
    found: dict[str, frozenset[int]] = {}
    for name, region in reversed(list(program.regions.items())):  # callees before callers
        derived: set[int] = set()
        lanes = dict(_lanes(program, region, returned, derived))
        found[name] = frozenset(step for step, lane in lanes.items() if lane == "after")
        returned[name] = frozenset(n for n, v in enumerate(region.results) if v in derived)
    called: defaultdict[str, set[str]] = defaultdict(set)
    for name, region in program.regions.items():
        whole = called[name].pop() if len(called[name]) == 1 else ""
        if whole:
            steps = range(len(region)) if whole == "after" else ()
            found[name] = frozenset(steps)
        for step, bodies in region.calls.items():
            own = whole or ("after" if step in found[name] else _lane(program, region, step))
            for body in bodies:
                called[body].add(own)
    return {name: steps for name, steps in found.items() if steps}


def _lanes(
    program: ProgramColumns, region: Columns, returned: _Results, derived: set[int]
) -> Iterator[tuple[int, str]]:
    """Yields each step with its lane; adds the values that come of gradients to `derived`."""
    for step in range(len(region)):
        results = region.values(step)
        lane = _lane(program, region, step)
        if not lane and any(d and results.start - d in derived for d in region.distances(step)):
            lane = "after"
        if lane:
            derived.update(results)
        for body in region.calls.get(step, ()):
            derived.update(results[n] for n in returned[body] if n < len(results))
        yield step, lane


def _lane(program: ProgramColumns, region: Columns, step: int) -> str:
    return "backward" if _BACKWARD in program.places[region.place[step]].scope else ""
