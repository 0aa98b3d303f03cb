"""Links the programs of one function for several targets, through the equations that they share."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from jaxlens.links.links import Links
from jaxlens.render.link_data import Parts, Web
from jaxlens.views.links import weave

Atoms = tuple[int, ...]


def weave_targets(programs: Sequence[tuple[str, Links]]) -> Web | None:
    """Returns links whose atoms are equations: an instruction has those that it came from.

    Args:
        programs: A name of each program, and its links. A stage of it is named "optimized on
            NAME" and "kernels on NAME". One with other equations than the first is not linked.

    Returns:
        The links; None where the first program has no jaxpr.
    """
    webs = [(name, weave(links, ("kernels",), fates=False)) for name, links in programs]
    first = webs[0][1] if webs else None
    if first is None or not first.atoms.get("jaxpr"):
        return None
    numbers = {id: n for n, id in enumerate(first.atoms["jaxpr"])}
    atoms: dict[str, Mapping[str, Atoms]] = {"jaxpr": {id: (n,) for id, n in numbers.items()}}
    for name, web in webs:
        if web is not None and web.atoms.get("jaxpr", {}).keys() == numbers.keys():
            numbered = _numbered(web, numbers)
            for stage in ("optimized", "kernels"):
                nodes = web.atoms.get(stage, {})
                atoms[f"{stage} on {name}"] = {id: numbered(of) for id, of in nodes.items()}
    numbered = _numbered(first, numbers)
    return replace(
        first,
        atoms=atoms,
        lines={line: numbered(of) for line, of in first.lines.items()},
        calls={line: numbered(of) for line, of in first.calls.items()},
        owned=_parts(first.owned, numbered),
        called=_parts(first.called, numbered),
        how={},
        alike=None,
    )


def _numbered(web: Web, numbers: Mapping[str, int]) -> Callable[[Iterable[int]], Atoms]:
    """Returns a function from the atoms of a program to the numbers of their equations."""
    equations: defaultdict[int, list[int]] = defaultdict(list)
    for id, of in web.atoms["jaxpr"].items():
        for atom in of:
            equations[atom].append(numbers[id])
    return lambda of: tuple(sorted({n for atom in of for n in equations.get(atom, ())}))


def _parts(parts: Parts, numbered: Callable[[Iterable[int]], Atoms]) -> Parts:
    return {line: {c: numbered(of) for c, of in at.items()} for line, at in parts.items()}
