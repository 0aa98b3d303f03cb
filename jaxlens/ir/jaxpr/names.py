"""Names values as JAX prints them: a, b, ..., z, ba, ...

The same jaxpr printed by JAX should show the same names. JAX names a variable when it first prints
it, prints shared and long bodies before the rest, and gives the inputs and outputs of a `jit` body
the names outside; this walk has the same order. JAX prints unused values as `_`; they are called
`_1`, `_2`, ... here, because names are unique within a region.

A name is stored as a number: the index of its letters, or a negative number for `_`.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, compress
from typing import Any

from jaxlens.ir.columns import Columns, ProgramColumns
from jaxlens.ir.jaxpr.bodies import JaxprBody, breadth_first

LONG = 10  # a body with more equations than this is printed before the rest
_UNNAMED = -(1 << 31)


class Names:
    """Names of all values of a program.

    Args:
        bodies: Its bodies, the whole program first.
        program: Their columns.
    """

    def __init__(self, bodies: Mapping[int, JaxprBody], program: ProgramColumns) -> None:
        self._bodies, self._program = bodies, program
        self._letters = self._dropped = 0
        self._numbers = {
            name: array("i", [_UNNAMED]) * len(region.types)
            for name, region in program.regions.items()
        }
        self._name_all()

    def name(self, region: str, value: int) -> str:
        """The name of a value, by its number in the region."""
        number = self._numbers[region][value]
        return _letters(number) if number >= 0 else f"_{-number}"

    def _name_all(self) -> None:
        main = next(iter(self._bodies.values()))
        # JAX looks for unused values in the outermost body alone, from its end on.
        region = self._program.regions[main.name]
        unread = self._unread(region)
        places = [(-bisect_right(region.first_result, value), value) for value in unread]
        for _, value in sorted(places):
            self._drop(self._numbers[main.name], value)
        inner = [body for body in breadth_first(dict(self._bodies)) if body is not main]
        first = [body for body in inner if body.times > 1 or len(body.jaxpr.eqns) > LONG]
        hoisted = {id(body.jaxpr) for body in first}
        for start in [*first, main]:
            stack = [self._walk(start, hoisted)]
            while stack:
                jaxpr = next(stack[-1], None)
                if jaxpr is None:
                    stack.pop()
                else:
                    stack.append(self._walk(self._bodies[id(jaxpr)], hoisted))

    def _unread(self, region: Columns) -> list[int]:
        """Values that the body defines and nothing in it reads or returns."""
        # A distance of 0 stands for a literal.
        read = set(compress(region.reads(), region.distance))
        read.update(region.results)
        return [n for n in range(region.parameters, len(region.types)) if n not in read]

    def _walk(self, body: JaxprBody, hoisted: set[int]) -> Iterator[Any]:
        """Names a body's values in printing order; yields the bodies printed in the middle."""
        region, numbers = self._program.regions[body.name], self._numbers[body.name]
        results = chain.from_iterable(eqn.outvars for eqn in body.jaxpr.eqns)
        # Unused values that JAX itself marks as such.
        marks = enumerate(results, region.parameters)
        dropped = {value for value, var in marks if type(var).__name__ == "DropVar"}
        self._name(numbers, range(region.parameters), dropped)
        start = 0
        for step, inner in body.inner.items():
            before = range(region.first_result[start], region.first_result[step])
            self._name(numbers, before, dropped)
            eqn = body.jaxpr.eqns[step]
            if eqn.primitive.name == "jit" and id(inner[0]) not in hoisted:
                callee_body = self._bodies[id(inner[0])]
                callee_region = self._program.regions[callee_body.name]
                first = region.first_result[step]
                operands = [first - n if n else -1 for n in region.distances(step)]
                parameters = range(callee_region.parameters)
                self._share(body, operands, callee_body, parameters)
                self._share(body, region.values(step), callee_body, callee_region.results)
            self._name(numbers, region.values(step), dropped)
            start = step + 1
            for callee in inner:
                if id(callee) not in hoisted:
                    yield callee
        self._name(numbers, range(region.first_result[start], len(numbers)), dropped)

    def _share(
        self, body: JaxprBody, outer: Sequence[int], inner: JaxprBody, values: Sequence[int]
    ) -> None:
        """Gives a body's inputs or results the names of the call's values, each at most once."""
        outer_names, inner_names = self._numbers[body.name], self._numbers[inner.name]
        used: set[int] = set()
        if len(outer) != len(values):
            return
        for value, like in zip(values, outer, strict=True):
            if value < 0 or like < 0 or like in used or inner_names[value] != _UNNAMED:
                continue
            used.add(like)
            self._name(outer_names, (like,), set())
            if outer_names[like] < 0:
                self._drop(inner_names, value)
            else:
                inner_names[value] = outer_names[like]

    def _name(self, numbers: "array[int]", values: Sequence[int], dropped: set[int]) -> None:
        for value in values:
            if numbers[value] == _UNNAMED:
                if value in dropped:
                    self._drop(numbers, value)
                else:
                    numbers[value] = self._letters
                    self._letters += 1

    def _drop(self, numbers: "array[int]", value: int) -> None:
        self._dropped += 1
        numbers[value] = -self._dropped


def _letters(number: int) -> str:
    """A number in base 26, digits a to z: a, ..., z, ba, bb, ..."""
    digits, rest = chr(97 + number % 26), number // 26
    while rest:
        digits, rest = chr(97 + rest % 26) + digits, rest // 26
    return digits
