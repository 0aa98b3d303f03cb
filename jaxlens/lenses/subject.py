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


class _Part(Generic[T]):
    """An attribute of a subject that one of its parts gives."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, subject: "Subject", owner: type) -> T:
        value: T = subject.parts[self._name].get()
        return value


@dataclass(frozen=True)
class Subject:
    """One program, as far as a question looks at it. Its attributes are those of `Capture`.

    Attributes:
        program: What was captured.
        parts: The stages and facts that it was made with, by name.
    """

    program: Program
    parts: Mapping[str, Given[Any]] = field(repr=False)

    jaxpr = _Part[Stage]()
    hlo = _Part[Stage]()
    optimized = _Part[Stage]()
    passes = _Part[tuple[PassStage, ...]]()
    fusing = _Part[tuple[PassStage, ...]]()
    has_all_passes = _Part[bool]()
    kernels = _Part[tuple[Kernel, ...]]()
    sources = _Part[Mapping[str, Source]]()
    outputs = _Part[tuple[Input, ...]]()
    constants = _Part[tuple[Constant, ...]]()
    times = _Part[tuple[Timing, ...]]()

    def stage(self, name: str) -> Stage:
        """A stage that it was made with.

        Raises:
            UnavailableError: The backend does not give it.
        """
        stage: Stage = self.parts[name].get()
        return stage


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
