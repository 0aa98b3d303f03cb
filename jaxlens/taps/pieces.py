"""Opens the calls of a jaxpr, and cuts its equations into pieces of which many are equal.

A program with unrolled layers repeats itself. Cut where a piece that is known begins again, its
layers are the same few pieces, and a run with measurements compiles each of them once. The compile
of thousands of measurements is what such a run would cost most.
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np

from jaxlens.ir.jaxpr.bodies import JaxprBody, opened
from jaxlens.taps.primitives import CALLS, Path
from jaxlens.taps.refs import LITERAL, makes_ref

_LONG = 32  # equations of a piece
_SHORT = 8  # equations of a piece that is worth a cut
_BYTES = 1 << 28  # of a piece's values, which are in memory at once
_FIRST = 4  # equations by which a piece is looked up


@dataclass(frozen=True, slots=True)
class WrittenOperand:
    """An operand that is written in the program, and its element type."""

    value: Any
    dtype: Any


@dataclass(frozen=True, slots=True)
class OpenedEquation:
    """An equation of a program whose calls are opened.

    Attributes:
        path: Where it is.
        eqn: The equation.
        reads: The numbers of its operands' values, or constants.
        writes: The numbers of its results.
    """

    path: Path
    eqn: Any
    reads: tuple[int | WrittenOperand, ...]
    writes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OpenedJaxpr:
    """The equations of a jaxpr, and of those that it calls, in the order of execution.

    Attributes:
        steps: The equations.
        inputs: The numbers of its inputs.
        consts: Arrays that it has baked in, by number.
        results: The numbers of its results, or constants.
        last: The index of the last equation that reads a value, by its number; of results that
            index is the number of equations.
    """

    steps: tuple[OpenedEquation, ...]
    inputs: tuple[int, ...]
    consts: dict[int, Any] = field(repr=False)
    results: tuple[int | WrittenOperand, ...]
    last: dict[int, int] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ProgramPiece:
    """Equations that follow one another.

    Attributes:
        steps: The equations.
        reads: The numbers of the values that they take from before.
        writes: The numbers of those that are read after them.
        key: Equal for pieces that compute the same.

    One with an equation that makes a ref has no other equation.
    """

    steps: tuple[OpenedEquation, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    key: Hashable


def called(eqn: Any) -> Any:
    """Returns the closed jaxpr of an equation that is one call of it; None for others."""
    return eqn.params.get(CALLS.get(eqn.primitive.name, ""))


def open_calls(closed: Any, path: Path, known: dict[int, JaxprBody]) -> OpenedJaxpr:
    """Returns the equations of a jaxpr, with those of the jaxprs that it calls in their place."""
    steps: list[OpenedEquation] = []
    consts: dict[int, Any] = {}
    count = iter(range(1 << 62))

    def enter(
        closed: Any, path: Path, reads: Sequence[int | WrittenOperand]
    ) -> tuple[int | WrittenOperand, ...]:
        jaxpr = opened(closed)
        numbers = dict(zip(map(id, jaxpr.invars), reads, strict=True))
        for index, var in enumerate(jaxpr.constvars):
            numbers[id(var)] = number = next(count)
            consts[number] = closed.consts[index]

        def number_of(atom: Any) -> int | WrittenOperand:
            if isinstance(atom, LITERAL):
                return WrittenOperand(atom.val, atom.aval.dtype)
            return numbers[id(atom)]

        for eqn, ident in zip(jaxpr.eqns, known[id(jaxpr)].ids, strict=True):
            operands = tuple(map(number_of, eqn.invars))
            inner = called(eqn)
            if inner is not None:
                results = enter(inner, (*path, ident), operands)
            else:
                results = writes = tuple(next(count) for _ in eqn.outvars)
                steps.append(OpenedEquation((*path, ident), eqn, operands, writes))
            numbers.update(zip(map(id, eqn.outvars), results, strict=True))
        return tuple(map(number_of, jaxpr.outvars))

    inputs = tuple(next(count) for _ in opened(closed).invars)
    results = enter(closed, path, inputs)
    last = {n: index for index, step in enumerate(steps) for n in step.reads if isinstance(n, int)}
    last |= dict.fromkeys((n for n in results if isinstance(n, int)), len(steps))
    return OpenedJaxpr(tuple(steps), inputs, consts, results, last)


def cut(
    program: OpenedJaxpr,
    more: Callable[[OpenedEquation], Hashable],
    numbers: dict[Hashable, int],
) -> Iterator[ProgramPiece]:
    """Yields the pieces of a program.

    Args:
        program: The program.
        more: What must be equal in two steps besides the equation.
        numbers: Gets the number of each equation by what it computes; keys of pieces that were cut
            with the same numbers can be compared.
    """
    steps = program.steps
    # Tokens are small numbers, so that runs of them compare fast.
    tokens = [numbers.setdefault((_token(s.eqn), more(s)), len(numbers)) for s in steps]
    # Cut twice: what was found to repeat begins at its first occurrence already.
    sums = list(accumulate(map(_bytes, steps), initial=0))
    counts = Counter(tuple(run) for run in _runs(tokens, sums, ()))
    start = 0
    for run in _runs(tokens, sums, [run for run, n in counts.items() if n > 1]):
        stop = start + len(run)
        apart = {n for n in range(start, stop) if makes_ref(steps[n].eqn)}
        ends = sorted({stop, *apart, *(n + 1 for n in apart)} - {start})
        for end in ends:
            yield _piece(steps, start, end, tokens, program.last)
            start = end


def _runs(
    tokens: list[int], sums: list[int], repeating: Iterable[Sequence[int]]
) -> Iterator[list[int]]:
    """Yields consecutive parts of a sequence, each as long as one before if it is that again."""
    known: dict[tuple[int, ...], list[list[int]]] = {}

    def learn(run: Sequence[int]) -> None:
        if len(run) >= _SHORT:
            known.setdefault(tuple(run[:_FIRST]), []).append(list(run))

    def repeated(start: int) -> int:
        """Returns the length of the longest known part that begins here; 0 for none."""
        some = known.get(tuple(tokens[start : start + _FIRST]), ())
        return max((len(t) for t in some if tokens[start : start + len(t)] == t), default=0)

    for run in repeating:
        learn(run)
    start = 0
    while start < len(tokens):
        length = repeated(start)
        if not length:
            stop = min(start + _LONG, len(tokens), bisect_right(sums, sums[start] + _BYTES) - 1)
            stop = max(stop, start + 1)
            length = next((j for j in range(start + 1, stop) if repeated(j)), stop) - start
            learn(tokens[start : start + length])
        yield tokens[start : start + length]
        start += length


def _piece(
    steps: Sequence[OpenedEquation], start: int, stop: int, tokens: list[int], last: dict[int, int]
) -> ProgramPiece:
    local: dict[int, int] = {}
    reads: list[int] = []
    wiring: list[Hashable] = []
    for step in steps[start:stop]:
        for read in step.reads:
            if isinstance(read, int) and read not in local:
                local[read] = len(local)
                reads.append(read)
            wiring.append(local[read] if isinstance(read, int) else _constant(read.value))
        for write in step.writes:
            local[write] = len(local)
    inside = (write for step in steps[start:stop] for write in step.writes)
    writes = tuple(write for write in inside if last.get(write, 0) >= stop)
    key = (tuple(tokens[start:stop]), tuple(wiring), tuple(local[write] for write in writes))
    return ProgramPiece(tuple(steps[start:stop]), tuple(reads), writes, key)


def _bytes(step: OpenedEquation) -> int:
    types = (var.aval for var in step.eqn.outvars if hasattr(var.aval, "dtype"))
    return sum(math.prod(aval.shape) * aval.dtype.itemsize for aval in types)


def _token(eqn: Any) -> Hashable:
    """Returns what is equal for equations that compute the same, but for constants."""
    params = tuple((name, _frozen(value)) for name, value in sorted(eqn.params.items()))
    types = tuple(atom.aval for atom in (*eqn.invars, *eqn.outvars))
    return (eqn.primitive, params, types, repr(eqn.ctx))


def _frozen(value: Any) -> Hashable:
    """Returns a key of a parameter; of one that has no hash, its identity. Jaxprs have theirs."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return (type(value), value)


def _constant(value: Any) -> Hashable:
    # By bytes: 0.0 equals -0.0, and NaN not even itself.
    array = np.asarray(value)
    return ("constant", type(value), str(array.dtype), array.shape, array.tobytes())
