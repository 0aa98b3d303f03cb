"""What is known of a compiled program that may be wrong."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jaxlens.ir.graph import Span
from jaxlens.program.subject import ProgramFacts
from jaxlens.report import count
from jaxlens.taps.primitives import Path

WORDS = {True: "right", False: "wrong", None: "not compiled"}


@dataclass(frozen=True, slots=True)
class CheckedResult:
    """A result as compiled, against the same op by op and in float64.

    Attributes:
        index: The index of the result.
        dtype: Its element type.
        shape: Its shape.
        unequal: Number of elements that differ from op by op.
        wrong: Number of those that rounding does not explain.
        nan: Number of those that are NaN.
        error: The largest error as compiled against float64, in ulps; None for other types than
            floats, and where all elements are equal.
        own: The same op by op.
        allowed: The largest error that rounding explains.
    """

    index: int
    dtype: str
    shape: tuple[int, ...]
    unequal: int
    wrong: int = 0
    nan: int = 0
    error: float | None = None
    own: float | None = None
    allowed: float | None = None


@dataclass(frozen=True, slots=True)
class ReducedProgram:
    """A part of the program that is compiled wrongly when it is compiled by itself.

    Attributes:
        equations: The equations of the program that it has, in order.
        opcodes: Their primitives.
        types: The types of its inputs.
        results: Its results.
        compiles: How many programs were compiled to find it.
        complete: Whether no smaller part was left to try; else the budget was spent.
    """

    equations: tuple[Path, ...]
    opcodes: tuple[str, ...]
    types: tuple[str, ...]
    results: tuple[CheckedResult, ...]
    compiles: int
    complete: bool


@dataclass(frozen=True, slots=True)
class Disagreement(ProgramFacts):
    """Whether a compiled program is wrong, and why.

    Attributes:
        results: The program's results.
        reduced: A small part that is wrong; None where nothing is, or where the
            program is right when it is compiled again from its equations.
        trials: Whether the small part is right without a pass or with a flag, by its name; "" is
            the part as it is, None what XLA does not compile.
        fusions: What XLA made of its equations: fusions and instructions.
        spans: The user's line of each equation, by id.
        code: A file that compiles and runs the part, and says whether it is wrong.
        written: The file that was written; "" for none.
    """

    results: tuple[CheckedResult, ...]
    reduced: ReducedProgram | None = None
    trials: Mapping[str, bool | None] = field(default_factory=dict)
    fusions: tuple[str, ...] = ()
    spans: Mapping[Path, Span | None] = field(default_factory=dict)
    code: str = field(default="", repr=False)
    written: str = ""

    @property
    def found(self) -> bool:
        """Whether a result is wrong."""
        return any(result.wrong for result in self.results)

    @property
    def span(self) -> Span | None:
        """The line of the last equation of the small part; None if unknown."""
        return self.spans.get(self.reduced.equations[-1]) if self.reduced else None

    @property
    def cures(self) -> tuple[str, ...]:
        """The passes without which the small part is right, and the flags with which it is."""
        if self.trials.get("", True):  # it was right as it is, in the process that tried
            return ()
        return tuple(name for name, right in self.trials.items() if right)

    @property
    def issue(self) -> str:
        """Text of an issue for JAX or XLA; "" where there is no small part."""
        part, target = self.reduced, self.subject().program.target
        if part is None:
            return ""
        where = target.kind or target.platform
        tried = (f"- {name or 'as it is'}: {WORDS[right]}" for name, right in self.trials.items())
        paragraphs = (
            f"# Wrong result of {', '.join(part.opcodes)} compiled for {where}",
            f"jax {target.jax}, jaxlib {target.jaxlib}, {where}. Compiled together, "
            f"{wrong_result(part.results)}, where each op is compiled alone.",
            "Without a pass (`xla_disable_hlo_passes`), or with a flag:",
            "\n".join(tried),
            f"```python\n{self.code.rstrip()}\n```\n",
        )
        return "\n\n".join(paragraphs)


def wrong_result(results: tuple[CheckedResult, ...], names: Sequence[str] = ()) -> str:
    """Says which result is wrong, and in how many elements.

    Args:
        results: The results.
        names: Their names, where they have any.
    """
    one = max(results, key=lambda one: one.wrong)
    name = f"`{names[one.index]}`" if one.index < len(names) > 1 else f"result {one.index}"
    result = f"{name}, {one.dtype}[{','.join(map(str, one.shape))}], "
    elements = count(math.prod(one.shape), "element")
    if one.nan:
        return f"{result}is NaN in {one.nan:,} of {elements}"
    beyond = " by more than rounding" if one.error is not None else ""
    return f"{result}differs from op by op{beyond} in {one.wrong:,} of {elements}"
