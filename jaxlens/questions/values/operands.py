"""What an equation reads: the share of zeros, and whether all of it is written in the program.

A value that is zero because an operand is, or because it was given so, says nothing of its
equation. One that is zero although its operands are not does: a dead activation, an underflow.
"""

from collections.abc import Iterator

from jaxlens.ir.graph import Module, Node
from jaxlens.links.live_equations import Place, ValueFlow
from jaxlens.questions.values.statistics import ValuesRun
from jaxlens.taps.primitives import LOOPS, MOVES, Path

_FLOATS = ("f", "bf", "c")  # how the names of their types begin


class Operands:
    """Follows operands to the equations that made them, through calls and what moves elements."""

    def __init__(self, module: Module, run: ValuesRun) -> None:
        self._flow = ValueFlow(module)
        self._run = run
        regions = module.regions.values()
        self._at = {node.id: (region, node) for region in regions for node in region.nodes}

    def largest(self, path: Path) -> float | None:
        """Returns the largest share of zeros of the float operands of an equation.

        None if one is unknown, such as an input's or the carry's of a loop, or if there are none.
        Literals do not count.
        """
        region, node = self._at[path[-1]]
        places = [(region.name, name) for name in node.operands]
        shares = [share for place in places for share in self._shares(path[:-1], place)]
        known = [share for share in shares if share is not None]
        return max(known) if known and len(known) == len(shares) else None

    def written(self, path: Path) -> bool:
        """Whether all operands of an equation are literals, also such as a call was given."""
        region, node = self._at[path[-1]]
        return all(self._is_literal(path[:-1], (region.name, name)) for name in node.operands)

    def _is_literal(self, calls: Path, place: Place) -> bool:
        if place in self._flow.places:
            bound = self._bound(calls, place)
            return bool(bound) and all(self._is_literal(calls[:-1], outer) for outer in bound)
        return place not in self._flow.makers

    def _bound(self, calls: Path, place: Place) -> list[Place]:
        """Returns what binds the parameter of a call's body; nothing elsewhere."""
        call = self._at[calls[-1]] if calls else None
        return [*self._flow.bound(place, *call)] if call and _is_call(call[1]) else []

    def _shares(self, calls: Path, place: Place) -> Iterator[float | None]:
        """Yields a value's share of zeros, None if unknown; nothing of literals and integers."""
        if place in self._flow.places:
            parameter = self._flow.regions[place[0]].parameters[self._flow.places[place]]
            bound = self._bound(calls, place)
            for outer in bound:
                yield from self._shares(calls[:-1], outer)
            if not bound and parameter.type.dtype.startswith(_FLOATS):
                yield None
        elif place in self._flow.makers:
            region, node = self._flow.makers[place]
            n = [value.name for value in node.results].index(place[1])
            path = (*calls, node.id)
            measured = {one.result: one for one in self._run.equations.get(path, ())}
            if not node.results[n].type.dtype.startswith(_FLOATS):
                return
            if n in measured:
                yield measured[n].zeros / measured[n].elements
            elif node.opcode in MOVES:
                yield from self._shares(calls, (region.name, node.operands[0]))
            elif _is_call(node):
                (body,) = node.regions
                yield from self._shares(path, (body, self._flow.regions[body].results[n]))
            else:
                yield None


def _is_call(node: Node) -> bool:
    return len(node.regions) == 1 and node.opcode not in LOOPS
