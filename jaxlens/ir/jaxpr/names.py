"""Gives values the letters that JAX prints: a, b, ..., z, ba, ...

A reader who prints the same jaxpr should see the same names. JAX names a variable when
it first prints it, prints shared and long bodies before the rest, and lets the inputs
and outputs of a `jit` body share the names outside; so the same order is walked here.
Values that nothing reads print as `_`; here each is called `_1`, `_2`, ..., because
names within a region are unique.

A name is kept as a number until it is asked for: a letter's, or a negative one for `_`.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, compress, repeat
from operator import sub
from typing import Any

from jaxlens.ir.columns import Program
from jaxlens.ir.jaxpr.bodies import Body, breadth_first

LONG = 10  # a body with more equations than this is printed before the rest
_UNNAMED = -(1 << 31)


class Names:
    """Names of all values of a program.

    Args:
        found: Its bodies, the whole program first.
        program: Their columns.
    """

    def __init__(self, found: Mapping[int, Body], program: Program) -> None:
        self._found, self._program = found, program
        self._letters = self._dropped = 0
        self._unread_of: dict[str, list[int]] = {}
        self._numbers = {
            name: array("i", [_UNNAMED]) * len(region.types)
            for name, region in program.regions.items()
        }
        self._name_all()

    def of(self, region: str, value: int) -> str:
        """The name of a value, by its number in the region."""
        number = self._numbers[region][value]
        return _letters(number) if number >= 0 else f"_{-number}"

    def numbers(self, region: str) -> "array[int]":
        """A number for each value of a region: the place of its letters, negative for `_`."""
        return self._numbers[region]

    def _name_all(self) -> None:
        main = next(iter(self._found.values()))
        self._drop_unread(main)
        first = [b for b in breadth_first(dict(self._found)) if _stands_first(b, main)]
        hoisted = {id(body.jaxpr) for body in first}
        for start in [*first, main]:
            stack = [self._walk(start, hoisted)]
            while stack:
                inner = next(stack[-1], None)
                if inner is None:
                    stack.pop()
                else:
                    stack.append(self._walk(self._found[id(inner)], hoisted))

    def _drop_unread(self, main: Body) -> None:
        """JAX looks for unread values in the outermost body alone, from its end on."""
        made = self._program.regions[main.name].made
        places = [(-bisect_right(made, value), value) for value in self._unread(main)]
        for _, value in sorted(places):
            self._drop(self._numbers[main.name], value)

    def _unread(self, body: Body) -> list[int]:
        """Values that the body makes and nothing in it reads or returns."""
        known = self._unread_of.get(body.name)
        if known is not None:
            return known
        region = self._program.regions[body.name]
        counts = map(sub, region.read[1:], region.read)
        firsts = chain.from_iterable(map(repeat, region.made, counts))
        # A distance of 0 stands for a literal.
        read = set(compress(map(sub, firsts, region.back), region.back))
        read.update(region.results)
        found = [n for n in range(region.made[0], len(region.types)) if n not in read]
        self._unread_of[body.name] = found
        return found

    def _walk(self, body: Body, hoisted: set[int]) -> Iterator[Any]:
        """Names a body's values in printing order; yields the bodies printed in the middle."""
        region, numbers = self._program.regions[body.name], self._numbers[body.name]
        dropped = set(self._dropped_by_jax(body))
        self._name(numbers, range(region.parameters), dropped)
        start = 0
        for step, inner in body.inner.items():
            self._name(numbers, range(region.made[start], region.made[step]), dropped)
            start = step
            eqn = body.jaxpr.eqns[step]
            if eqn.primitive.name == "jit" and id(inner[0]) not in hoisted:
                self._share(body, step, self._found[id(inner[0])])
            self._name(numbers, range(region.made[step], region.made[step + 1]), dropped)
            start = step + 1
            for held in inner:
                if id(held) not in hoisted:
                    yield held
        self._name(numbers, range(region.made[start], len(numbers)), dropped)

    def _dropped_by_jax(self, body: Body) -> Iterator[int]:
        """Unread values that JAX itself marks as such."""
        made = self._program.regions[body.name].made
        for value in self._unread(body):
            step = bisect_right(made, value) - 1
            var = body.jaxpr.eqns[step].outvars[value - made[step]]
            if type(var).__name__ == "DropVar":
                yield value

    def _share(self, body: Body, step: int, inner: Body) -> None:
        """Gives a call's values to its body's inputs and results, each name to one at most."""
        outer, region = self._program.regions[body.name], self._program.regions[inner.name]
        first = outer.made[step]
        operands = [
            first - n if n else -1 for n in outer.back[outer.read[step] : outer.read[step + 1]]
        ]
        self._share_all(body, operands, inner, range(region.parameters))
        self._share_all(body, range(first, outer.made[step + 1]), inner, region.results)

    def _share_all(
        self, body: Body, outer: Sequence[int], inner: Body, values: Sequence[int]
    ) -> None:
        theirs, ours = self._numbers[body.name], self._numbers[inner.name]
        used: set[int] = set()
        if len(outer) != len(values):
            return
        for value, like in zip(values, outer, strict=True):
            if value < 0 or like < 0 or like in used or ours[value] != _UNNAMED:
                continue
            used.add(like)
            self._name(theirs, (like,), set())
            if theirs[like] < 0:
                self._drop(ours, value)
            else:
                ours[value] = theirs[like]

    def _name(self, numbers: "array[int]", values: Sequence[int], dropped: set[int]) -> None:
        letters = self._letters
        if isinstance(values, range) and not any(n in values for n in dropped):
            low, high = values.start, max(values.start, values.stop)
            if numbers[low:high].count(_UNNAMED) == high - low:  # most: all at once
                numbers[low:high] = array("i", range(letters, letters + high - low))
                self._letters += high - low
                return
        for value in values:
            if numbers[value] == _UNNAMED:
                if value in dropped:
                    self._drop(numbers, value)
                else:
                    numbers[value] = letters
                    letters += 1
        self._letters = letters

    def _drop(self, numbers: "array[int]", value: int) -> None:
        self._dropped += 1
        numbers[value] = -self._dropped


def _stands_first(body: Body, main: Body) -> bool:
    return body is not main and (body.times > 1 or len(body.jaxpr.eqns) > LONG)


def _letters(number: int) -> str:
    """A number in base 26, digits a to z: a, ..., z, ba, bb, ..."""
    digits, rest = chr(97 + number % 26), number // 26
    while rest:
        digits, rest = chr(97 + rest % 26) + digits, rest // 26
    return digits
