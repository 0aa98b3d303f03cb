"""Cuts a program down while a test of it still fails."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlens.questions.disagree.measure.judge import ResultJudge
from jaxlens.questions.numerics.measure.shadow import ShadowInterpreter
from jaxlens.taps.pieces import OpenedEquation, WrittenOperand
from jaxlens.taps.primitives import Path
from jaxlens.taps.refs import bind

# Parameters that are sizes or positions along a dimension.
_SIZES = """dimension_size length limit_indices new_sizes shape sizes slice_sizes start_indices
window_dimensions""".split()
_ITERATIONS = 4  # of a loop whose body is tried by itself


@dataclass(frozen=True, slots=True)
class ProgramCut:
    """Some equations of a program, on the values that they had when it ran op by op.

    Attributes:
        steps: The equations, in order.
        results: The program's results: their numbers, or constants.
        values: The values of the program, by number.
    """

    steps: tuple[OpenedEquation, ...]
    results: tuple[int | WrittenOperand, ...]
    values: dict[int, Any] = field(repr=False)

    @property
    def inputs(self) -> dict[int, Any]:
        """The values that it takes, by number."""
        written = {n for step in self.steps for n in step.writes}
        every = (n for step in self.steps for n in step.reads if isinstance(n, int))
        return {n: jnp.asarray(self.values[n]) for n in every if n not in written}

    def function(self) -> Callable[..., list[Any]]:
        """Returns it as a function: of the program's results, and of what no equation reads."""
        inputs = list(self.inputs)
        read = {n for step in self.steps for n in step.reads if isinstance(n, int)}
        inner = read.difference(self.results) | {*inputs}

        def reduced(*given: Any) -> list[Any]:
            values = dict(zip(inputs, given, strict=True))
            for step in self.steps:
                operands = [
                    np.asarray(n.value, n.dtype) if isinstance(n, WrittenOperand) else values[n]
                    for n in step.reads
                ]
                values.update(zip(step.writes, bind(step.eqn, operands), strict=True))
            return [value for n, value in values.items() if n not in inner]

        return reduced

    def judge(self) -> ResultJudge:
        """Traces it."""
        inputs = self.inputs.values()
        return ResultJudge(jax.make_jaxpr(self.function())(*inputs), inputs)

    def fewer(self, bodies: Mapping[Path, list["ProgramCut"]]) -> Iterator["ProgramCut"]:
        """Yields it without some equations, half of them first, or the bodies of the only one."""
        number = size = len(self.steps)
        while size := size // 2:
            for start in range(0, number, size):
                steps = self.steps[:start] + self.steps[start + size :]
                yield replace(self, steps=steps)
        if number == 1:
            yield from bodies.get(self.steps[0].path, ())

    def halves(self) -> Iterator["ProgramCut"]:
        """Yields it with every dimension of a size halved, the largest size first."""
        avals = (closed := self.judge().closed).in_avals + closed.out_avals
        yield from map(self._halved, sorted({n for x in avals for n in x.shape if n > 1})[::-1])

    def _halved(self, size: int) -> "ProgramCut":
        """Returns it with the dimensions of this size halved, which may not trace."""

        def half(value: Any) -> Any:
            if value in range(size - 1, size + 2):
                return value - size + size // 2
            return value // size * (size // 2) if value % size == 0 else value

        def smaller(step: OpenedEquation) -> OpenedEquation:
            params = step.eqn.params
            sizes = {name: params[name] for name in _SIZES if name in params}
            eqn = step.eqn.replace(params={**params, **jax.tree.map(half, sizes)})
            return replace(step, eqn=eqn)

        values = {
            n: x[tuple(slice(size // 2 if each == size else None) for each in x.shape)]
            for n, x in self.inputs.items()
        }
        return replace(self, steps=tuple(map(smaller, self.steps)), values=values)


def smallest(judge: ResultJudge, fails: Callable[[ProgramCut], bool]) -> ProgramCut | None:
    """Returns a part that fails: fewer equations, of a loop its body, and smaller dimensions.

    Args:
        judge: The program.
        fails: The test; None is returned where the program itself does not fail.
    """
    recorder = ShadowInterpreter(judge.known, follow=False, kept=_ITERATIONS)
    judge.run(recorder)
    bodies = {
        path: [ProgramCut(program.steps, program.results, values) for program, values in runs]
        for path, runs in recorder.runs.items()
    }
    (cut,) = bodies[()]
    if not fails(cut):
        return None
    for smaller in (lambda part: part.fewer(bodies), ProgramCut.halves):
        while found := next(filter(fails, smaller(cut)), None):
            cut = found
    return cut
