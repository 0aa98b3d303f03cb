"""What reports quote and views list of a program: its stages and sources, as frozen data.

Facts hold a `Subject` where what is below them needs more than figures. It gives only the stages
that it was made with, so nothing that reads it can start a compile that no question declared.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Literal, TypeVar

from jaxlens.captures import Capture
from jaxlens.errors import LensError
from jaxlens.ir.facts import (
    Constant,
    Input,
    Kernel,
    PassStage,
    Program,
    Source,
    Stage,
    Target,
    Timing,
)

T = TypeVar("T")
SubjectPart = Literal[
    "jaxpr",
    "stablehlo",
    "hlo",
    "optimized",
    "llvm",
    "asm",
    "passes",
    "fusing",
    "has_all_passes",
    "kernels",
    "times",
]


class Given(Generic[T]):
    """A value, or the error that says why it is missing; read when it is first asked for."""

    def __init__(self, read: Callable[[], T]) -> None:
        self._read: Callable[[], T] | None = read
        self._value: T
        self._error: LensError | None = None

    def get(self) -> T:
        """The value.

        Raises:
            LensError: It is missing.
        """
        if self._read is not None:
            try:
                self._value = self._read()
            except LensError as error:
                self._error = error
            self._read = None
        if self._error is not None:
            raise self._error
        return self._value

    def or_else(self, default: T) -> T:
        """The value, or another where it is missing."""
        try:
            return self.get()
        except LensError:
            return default


@dataclass(frozen=True, slots=True)
class Subject:
    """One program, as far as a question looks at it. Its attributes are those of `Capture`.

    Attributes:
        program: What was captured.
        parts: The stages and facts that it was made with, by name.
    """

    program: Program
    parts: Mapping[str, Given[Any]] = field(repr=False)

    def stage(self, name: str) -> Stage:
        """A stage that it was made with.

        Raises:
            UnavailableError: The backend does not give it.
        """
        stage: Stage = self.parts[name].get()
        return stage

    @property
    def jaxpr(self) -> Stage:
        return self.stage("jaxpr")

    @property
    def optimized(self) -> Stage:
        return self.stage("optimized")

    @property
    def hlo(self) -> Stage:
        return self.stage("hlo")

    @property
    def passes(self) -> tuple[PassStage, ...]:
        passes: tuple[PassStage, ...] = self.parts["passes"].get()
        return passes

    @property
    def fusing(self) -> tuple[PassStage, ...]:
        fusing: tuple[PassStage, ...] = self.parts["fusing"].get()
        return fusing

    @property
    def has_all_passes(self) -> bool:
        return bool(self.parts["has_all_passes"].get())

    @property
    def sources(self) -> Mapping[str, Source]:
        sources: Mapping[str, Source] = self.parts["sources"].get()
        return sources

    @property
    def outputs(self) -> tuple[Input, ...]:
        outputs: tuple[Input, ...] = self.parts["outputs"].get()
        return outputs

    @property
    def constants(self) -> tuple[Constant, ...]:
        constants: tuple[Constant, ...] = self.parts["constants"].get()
        return constants

    @property
    def times(self) -> tuple[Timing, ...]:
        times: tuple[Timing, ...] = self.parts["times"].get()
        return times

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        kernels: tuple[Kernel, ...] = self.parts["kernels"].get()
        return kernels


NO_SUBJECT = Subject(Program("", (), (), Target("", "")), {})
"""That of facts that were put together by hand."""


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """Base of facts whose report or view lists parts of the program beside the figures."""

    _subject: Subject = field(default=NO_SUBJECT, repr=False, compare=False, kw_only=True)

    def subject(self) -> Subject:
        """The program, as far as the question looks at it."""
        return self._subject


Seen = Capture | Subject
"""What gives stages and sources."""


def subject_of(capture: Capture, *parts: SubjectPart) -> Subject:
    """The subject of a question about a capture.

    Args:
        capture: The program.
        parts: What is looked at beside its sources, outputs and constants, which the trace gives.
    """
    names = ("sources", "outputs", "constants", *parts)
    return Subject(capture.program, {n: Given(partial(getattr, capture, n)) for n in names})
