"""Finds the names that the user's code gives to the values of a jaxpr.

There are three sources: the names of the inputs, the parameter names of the function that a body
was traced from, and the targets of assignments. For the last, a value has the name of `h = f(x)`
only if no other value traced inside `f(x)` is read later. Other values have no name here.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TypeAlias

from jaxlens.ir.columns import Columns, Place, columns, locator
from jaxlens.ir.facts import Source
from jaxlens.ir.graph import Module, Node, Region, Span
from jaxlens.ir.jaxpr.bodies import loop_parts, operand
from jaxlens.ir.jaxpr.python_text import Target, assignments

_LONGEST = 60  # characters of a name
_BACKWARD = "transpose("
_FORWARD = "jvp("
# Calls whose bodies read the operands themselves, once: other bodies read rows or carried values.
_CALLS = frozenset(
    "jit closed_call cond remat remat2 checkpoint custom_jvp_call custom_vjp_call".split()
)

Names: TypeAlias = Mapping[int, str]
"""Names of a region's values, by their number in its columns."""

_Run: TypeAlias = tuple[int, int, Target]
"""First step, step after the last, and what the value is assigned to."""


class UserNames:
    """The names of a jaxpr's values in the user's code; a region's are found on first use.

    Args:
        module: A jaxpr.
        inputs: Names of the entry's inputs, without captured constants.
        captured: Names of these constants.
        sources: Source texts, by `Span.key`.
    """

    def __init__(
        self,
        module: Module,
        inputs: Sequence[str] = (),
        captured: Sequence[str] = (),
        sources: Mapping[str, Source] | None = None,
    ) -> None:
        self._module, self._sources = module, sources or {}
        self._program = columns(module)
        parameters = self._program.regions[module.entry].parameters
        entry = [*captured, *inputs]
        self._entry = entry if len(entry) == parameters else []
        self._of: dict[str, Names] = {}
        self._locate = locator(self._program)

    def of(self, region: str) -> Names:
        """Returns the names of a region's values."""
        waiting = [region]
        while waiting:  # callers first; calls form no cycle
            name = waiting[-1]
            missing = [c for c, _ in self._callers.get(name, ()) if c not in self._of]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if name not in self._of:
                self._of[name] = self._region(self._module.regions[name])
        return self._of[region]

    def results_of(self, ident: str) -> tuple[str, ...]:
        """Returns the names of an equation's results, by its id."""
        return self.results(*self._locate(ident))

    def results(self, region: str, step: int) -> tuple[str, ...]:
        """Returns the names of a step's results, "" for a result without one."""
        names = self.of(region)
        return tuple(names.get(n, "") for n in self._program.regions[region].values(step))

    @cached_property
    def _callers(self) -> Mapping[str, list[tuple[str, int]]]:
        """The steps that call each region."""
        callers: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        for name, region in self._program.regions.items():
            for step, called in region.calls.items():
                for inner in called:
                    callers[inner].append((name, step))
        return callers

    def _region(self, region: Region) -> Names:
        names = dict(self._parameters(region))
        runs = list(self._runs(region))
        last = self._last(self._program.regions[region.name]) if runs else {}
        for run in runs:
            for value, name in self._assigned(region, run, last):
                names.setdefault(value, name)
        return {value: name for value, name in names.items() if len(name) <= _LONGEST}

    def _parameters(self, region: Region) -> Iterator[tuple[int, str]]:
        """Yields numbers and names of parameters; a body's may be the operands of its one call."""
        if region.name == self._module.entry:
            yield from ((n, name) for n, name in enumerate(self._entry) if name)
            return
        if region.name not in self._backward:
            yield from ((n, name) for n, name in enumerate(region.arguments) if name)
        calls = self._callers.get(region.name, ())
        if len(calls) != 1:
            return
        caller, step = calls[0]
        outer, rows = self._of[caller], self._program.regions[caller]
        node = self._module.regions[caller].nodes[rows.steps[step]]
        parameters = self._program.regions[region.name].parameters
        distances, first = rows.distances(step), rows.first_result[step]
        for n in range(parameters):
            place = _operand(node, region.name, n, parameters)
            if place is not None and -len(distances) <= place < len(distances):
                name = outer.get(first - distances[place], "") if distances[place] else ""
                if name and not (n < len(region.arguments) and region.arguments[n]):
                    yield n, name

    def _runs(self, region: Region) -> Iterator[_Run]:
        """Yields the steps traced in each assigned expression, inner expressions first.

        The run ends with the first step that was traced elsewhere.
        """
        rows = self._program.regions[region.name]
        function = region.function if region.name != self._module.entry else ""
        if region.name in self._backward or (region.name != self._module.entry and not function):
            return
        targets: dict[int, list[tuple[Sequence[Span], Target]]] = {}
        for n in set(rows.place):
            place = self._program.places[n]
            if _BACKWARD not in place.scope:
                found = self._targets(place, function)
                if found:
                    targets[n] = found
        if not targets:
            return
        open_: list[tuple[int, Sequence[Span], Target]] = []  # outer expressions first
        previous = -1
        for step, n in enumerate(chain(rows.place, (-1,))):
            if n == previous:
                continue
            previous = n
            now = targets.get(n, [])[::-1]
            same = 0
            while same < min(len(open_), len(now)) and open_[same][1] == now[same][0]:
                same += 1
            for low, _, target in reversed(open_[same:]):
                yield low, step, target
            open_[same:] = [(step, stack, target) for stack, target in now[same:]]

    def _targets(self, place: Place, function: str) -> list[tuple[Sequence[Span], Target]]:
        """Returns the assigned expressions on a place's stack, innermost first, with their stack.

        Args:
            place: The place.
            function: Only those within this function: frames further out may be those of another
                call of the same body. "" for all.
        """
        targets: list[tuple[Sequence[Span], Target]] = []
        for n, span in enumerate(place.spans):
            name = _plain(span.function)
            source = None if span.library else self._sources.get(span.key)
            if source is not None and source.text:
                where = span.line, span.column, span.end_line, span.end_column
                target = assignments(source.text).get(where)
                if target is not None:
                    targets.append((place.spans[n:], target))
            if function and name == function:
                return targets
            if name in self._traced:  # moved out of a body: a part of an expression there
                targets.clear()
        return [] if function else targets

    @cached_property
    def _traced(self) -> frozenset[str]:
        """Functions that nested bodies were traced from."""
        regions = self._module.regions.values()
        return frozenset(r.function for r in regions if r.name != self._module.entry and r.function)

    @cached_property
    def _backward(self) -> frozenset[str]:
        """Bodies that only the backward pass calls: their own name stacks do not say so."""
        places, backward = self._program.places, set[str]()
        for name, rows in self._program.regions.items():  # callers first
            for step, called in rows.calls.items():
                if name in backward or _BACKWARD in places[rows.place[step]].scope:
                    backward.update(called)
        return frozenset(backward)

    def _assigned(
        self, region: Region, run: _Run, last: Mapping[int, int]
    ) -> Iterator[tuple[int, str]]:
        """Yields the values of a run that are read after it, if they are what was assigned."""
        rows, (low, high, target) = self._program.regions[region.name], run
        first, end = rows.first_result[low], rows.first_result[high]
        leaving = [n for n in range(first, end) if last.get(n, -1) >= high]
        final = rows.values(high - 1)
        if isinstance(target, str):
            forward = _FORWARD in self._program.places[rows.place[low]].scope
            if len(leaving) == 1 and (leaving[0] == final[-1] or forward):
                yield leaving[0], target
        elif set(leaving) <= set(final):
            node = region.nodes[rows.steps[high - 1]]
            names = _scanned(node, target)
            yield from ((n, name) for n, name in zip(final, names, strict=False) if name)

    def _last(self, rows: Columns) -> Mapping[int, int]:
        """Returns the last step that reads each value; the number of steps for a result.

        Steps of the backward pass do not count: they read what an expression kept for them too.
        """
        backward = {n for n in set(rows.place) if _BACKWARD in self._program.places[n].scope}
        steps: Sequence[int] = range(len(rows))
        if backward:
            # A backward step counts as one before the first, and the latest of two is kept.
            steps = [-1 if n in backward else step for step, n in enumerate(rows.place)]
        pairs = zip(rows.reads(), rows.per_operand(steps), strict=True)
        last = {value: step for value, step in pairs if step >= 0}
        last.update(dict.fromkeys(rows.results, len(rows)))
        return last


def _plain(function: str) -> str:
    """Returns the last part of a qualified name: `cell` of `rnn.<locals>.cell`."""
    return function.rpartition(".")[2]


def _operand(node: Node, region: str, n: int, parameters: int) -> int | None:
    """Returns which operand of a call is the n-th parameter of its body; None for a loop's own."""
    if node.opcode in _CALLS:
        return operand(node, n, parameters)
    tests, consts, _ = loop_parts(node)
    if node.opcode == "while" and region == node.regions[-1]:
        return n if n < tests else None
    return tests + n if n < consts else None


def _scanned(node: Node, target: tuple[Target, ...]) -> list[str]:
    """Returns the names of a scan's results in `h, ys = scan(...)`, "" where they do not fit.

    How the results of other calls lie in a tuple is not known.
    """
    if node.opcode != "scan" or len(target) != 2:
        return []
    carry = loop_parts(node).carry
    names: list[str] = []
    for part, count in zip(target, (carry, len(node.results) - carry), strict=True):
        flat = _flat(part)
        names += flat if len(flat) == count else [""] * count
    return names


def _flat(target: Target) -> list[str]:
    if isinstance(target, str):
        return [target]
    return [name for part in target for name in _flat(part)]
