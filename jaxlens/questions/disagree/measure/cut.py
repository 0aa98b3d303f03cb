"""Cuts a program down while a test of it still fails."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlens.compat.arrays import is_ref
from jaxlens.ir.jaxpr.params import with_counts
from jaxlens.questions.numerics.measure.shadow import ShadowedValue, ShadowInterpreter
from jaxlens.taps.pieces import OpenedEquation, OpenedJaxpr, WrittenOperand, open_calls
from jaxlens.taps.primitives import Path
from jaxlens.taps.refs import bind

# Parameters that are sizes or positions along a dimension.
_SIZES = """dimension_size length limit_indices new_sizes shape sizes slice_sizes start_indices
window_dimensions""".split()
_ITERATIONS = 4  # of a loop whose body is tried by itself
_Step = tuple[OpenedEquation, Mapping[str, Any]]  # with the parameters that are changed


@dataclass(frozen=True, slots=True)
class Cut:
    """Some equations of a program, on the values that they had when it ran op by op.

    Attributes:
        steps: The equations, in order, each with its changed parameters.
        results: The program's results: their numbers, or constants.
        values: The values of the program, by number.
    """

    steps: tuple[_Step, ...]
    results: tuple[int | WrittenOperand, ...]
    values: Mapping[int, Any] = field(repr=False)

    @property
    def reads(self) -> list[int]:
        """The numbers of the values that it takes."""
        written = {n for step, _ in self.steps for n in step.writes}
        every = (n for step, _ in self.steps for n in step.reads if isinstance(n, int))
        return [n for n in dict.fromkeys(every) if n not in written]

    @property
    def writes(self) -> list[int]:
        """The numbers of its results: the program's, and what is read by none of its equations."""
        read = {n for step, _ in self.steps for n in step.reads if isinstance(n, int)}
        results = {n for n in self.results if isinstance(n, int)}
        every = (n for step, _ in self.steps for n in step.writes)
        return [n for n in every if n in results or n not in read]

    @property
    def inputs(self) -> list[Any]:
        """The values that it takes."""
        return [self.values[n] for n in self.reads]

    @property
    def paths(self) -> tuple[Path, ...]:
        """The equations."""
        return tuple(step.path for step, _ in self.steps)

    def function(self) -> Callable[..., list[Any]]:
        """Returns it as a function of its inputs."""

        def reduced(*inputs: Any) -> list[Any]:
            values = dict(zip(self.reads, inputs, strict=True))
            for step, changed in self.steps:
                operands = [
                    np.asarray(n.value, n.dtype) if isinstance(n, WrittenOperand) else values[n]
                    for n in step.reads
                ]
                values.update(zip(step.writes, bind(step.eqn, operands, **changed), strict=True))
            return [values[n] for n in self.writes]

        return reduced

    def closed(self) -> Any:
        """Traces it."""
        return jax.make_jaxpr(self.function())(*self.inputs)

    def without(self, start: int, stop: int) -> "Cut":
        """Leaves out some equations; their results become inputs."""
        return replace(self, steps=self.steps[:start] + self.steps[stop:])

    def only(self, results: Sequence[int]) -> "Cut":
        """Keeps some results, and the equations that lead to them."""
        wanted: set[Any] = set(results)
        steps: list[_Step] = []
        for step, changed in reversed(self.steps):
            if wanted.intersection(step.writes):
                wanted.update(n for n in step.reads if isinstance(n, int))
                steps.append((step, changed))
        return replace(self, steps=tuple(reversed(steps)), results=tuple(results))

    def halved(self, size: int) -> "Cut":
        """Halves every dimension of a size. What comes of it may not trace, or compute else."""
        values = dict(self.values)
        for n in self.reads:
            old = values[n]
            part = tuple(slice(size // 2 if each == size else None) for each in old.shape)
            values[n] = old[part] if part else old
        steps = tuple(
            (step, _params({**step.eqn.params, **changed}, size)) for step, changed in self.steps
        )
        return replace(self, steps=steps, values=values)

    def sizes(self) -> list[int]:
        """Returns the sizes of the dimensions of its inputs and results, the largest first."""
        avals = [*(closed := self.closed()).in_avals, *closed.out_avals]
        return sorted({n for aval in avals for n in aval.shape if n > 1}, reverse=True)


def _params(params: Mapping[str, Any], size: int) -> dict[str, Any]:
    changed = {name: _halved(params[name], size) for name in _SIZES if name in params}
    return {name: value for name, value in changed.items() if value != params[name]} | {
        name: params[name] for name in ("sharding", "out_sharding") if name in params
    }


def _halved(value: Any, size: int) -> Any:
    if isinstance(value, tuple):
        return tuple(_halved(each, size) for each in value)
    if not isinstance(value, int) or value < size - 1:
        return value
    if value <= size + 1:
        return value - size + size // 2
    return value // size * (size // 2) if value % size == 0 else value


def recorded(closed: Any, args: Sequence[Any], known: Any, path: Path = ()) -> Cut:
    """Runs a program op by op and keeps every value; loops are one equation."""
    program: OpenedJaxpr = open_calls(closed, path, known)
    run = ShadowInterpreter(known, follow=False)
    values = program.consts | dict(zip(program.inputs, args, strict=True))
    for step in program.steps:
        operands = [
            np.asarray(n.value, n.dtype) if isinstance(n, WrittenOperand) else values[n]
            for n in step.reads
        ]
        shadowed = [ShadowedValue(x) for x in operands]
        made = run.evaluate_equation(step.eqn, shadowed, step.path, ())
        values.update(zip(step.writes, (x.value for x in made), strict=True))
    steps: tuple[_Step, ...] = tuple((step, {}) for step in program.steps)
    kept = {n: x if is_ref(x) else jnp.asarray(x) for n, x in values.items()}
    return Cut(steps, program.results, kept)


def smallest(cut: Cut, fails: Callable[[Cut], bool], known: Any) -> Cut:
    """Returns a part that still fails: fewer equations, of a loop its body, smaller dimensions."""
    cut = _fewer(cut, fails)
    while len(cut.steps) == 1:
        inner = next((part for part in _bodies(cut, known) if fails(part)), None)
        if inner is None:
            break
        cut = _fewer(inner, fails)
    again = True
    while again:
        again = False
        for size in cut.sizes():
            if fails(trial := cut.halved(size)):
                cut, again = trial, True
                break
    return cut


def _fewer(cut: Cut, fails: Callable[[Cut], bool]) -> Cut:
    size = (len(cut.steps) + 1) // 2
    while size:
        start = 0
        while start < len(cut.steps):
            trial = cut.without(start, start + size)
            if trial.steps and fails(trial):
                cut = trial
            else:
                start += size
        size //= 2
    return cut


def _bodies(cut: Cut, known: Any) -> Iterator[Cut]:
    """Yields the body of a loop at its first iterations, or the branch that was taken."""
    (step, _), *_ = cut.steps
    params, name = with_counts(step.eqn), step.eqn.primitive.name
    operands = [
        jnp.asarray(n.value, n.dtype) if isinstance(n, WrittenOperand) else cut.values[n]
        for n in step.reads
    ]
    if name == "cond":
        index = min(max(int(operands[0]), 0), len(params["branches"]) - 1)
        yield recorded(params["branches"][index], operands[1:], known, step.path)
    elif name in ("scan", "while"):
        tests = params.get("cond_nconsts", 0)
        first = tests + params["num_consts" if name == "scan" else "body_nconsts"]
        number = params["num_carry"] if name == "scan" else len(operands) - first
        consts, carry = operands[tests:first], operands[first : first + number]
        rows, length = operands[first + number :], params.get("length", _ITERATIONS)
        for n in range(min(length, _ITERATIONS)):
            row = [x[length - 1 - n if params.get("reverse") else n] for x in rows]
            body = params["jaxpr" if name == "scan" else "body_jaxpr"]
            given = [*consts, *carry, *row]
            yield recorded(body, given, known, step.path)
            run = ShadowInterpreter(known, follow=False)
            made = run.evaluate_body(body, [ShadowedValue(x) for x in given], step.path)
            carry = [jnp.asarray(x.value) for x in made[:number]]
