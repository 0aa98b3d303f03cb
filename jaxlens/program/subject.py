"""The stages and sources of a program that reports quote and views list, as frozen data.

Facts carry a `Subject` where their report or view needs more than figures. A subject has only the
stages that it was made with, so code that reads it cannot start a compile that the question did
not declare.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from typing import Any, ClassVar, Generic, Literal, TypeVar

from jaxlens.captures import Capture
from jaxlens.errors import LensError, UnavailableError
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
from jaxlens.ir.hlo.shardings import partitions

T = TypeVar("T")
_HEAD = 20_000  # characters of a program within which it declares its devices and mesh
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
    """A value, or the error that says why it is missing; read on the first access."""

    def __init__(self, read: Callable[[], T]) -> None:
        self._read: Callable[[], T] | None = read
        self._value: T
        self._error: LensError | None = None

    def get(self) -> T:
        """Returns the value.

        Raises:
            LensError: The value is missing.
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
        """Returns the value, or `default` where the backend or the capture does not provide it.

        Raises:
            LensError: Another error than `UnavailableError`, such as a text that cannot be read.
        """
        try:
            return self.get()
        except UnavailableError:
            return default


class _Part(Generic[T]):
    """Descriptor: an attribute of a `Subject`, read from the part of the same name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, subject: "Subject", owner: type) -> T:
        value: T = subject.parts[self._name].get()
        return value


@dataclass(frozen=True)
class Subject:
    """The parts of one program that a question reads. Its attributes are those of `Capture`.

    Attributes:
        program: The captured program.
        parts: The stages and facts that the subject was made with, by name.
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
        """Returns a stage that the subject was made with.

        Raises:
            UnavailableError: The backend does not provide the stage.
        """
        stage: Stage = self.parts[name].get()
        return stage


NO_SUBJECT = Subject(Program("", (), (), Target("", "")), {})
"""The default subject of facts that are constructed without a capture."""


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """Base class of facts whose report or view lists parts of the program with the figures."""

    _subject: Subject = field(default=NO_SUBJECT, repr=False, compare=False, kw_only=True)

    def subject(self) -> Subject:
        """Returns the parts of the program that the question reads."""
        return self._subject


class Forwarding:
    """Base class of facts that hold a record of figures, whose attributes can be read from both.

    `jaxlens.memory(f).peak` is `jaxlens.memory(f).use.peak`. A subclass gives the class of the
    record in `_forwarded`, and the record of one program in `_record`.
    """

    __slots__ = ()
    _forwarded: ClassVar[type]

    def _record(self) -> object:
        """Returns the record.

        Raises:
            UnavailableError: The program has none.
        """
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute of the record; called for names that the facts do not have."""
        if name.startswith("_") or not hasattr(self._forwarded, name):
            raise AttributeError(f"{self._forwarded.__name__!r} object has no attribute {name!r}")
        return getattr(self._record(), name)

    def __dir__(self) -> list[str]:
        own: set[str] = set()
        for record in (type(self), self._forwarded):
            values = vars(record).items()
            own |= {n for n, v in values if isinstance(v, property | cached_property)}
            own |= {f.name for f in fields(record)}
        return sorted(name for name in own if not name.startswith("_"))


Seen = Capture | Subject
"""An object with the stages and sources of a program."""


def subject_of(capture: Capture, *parts: SubjectPart) -> Subject:
    """Returns the subject of a question about a capture.

    Args:
        capture: The program.
        parts: Names of the parts to include. Sources, outputs and constants, which need the trace
            alone, are always included.
    """
    names = ("sources", "outputs", "constants", *parts)
    given = {n: Given(partial(getattr, capture, n)) for n in names}
    return Subject(capture.program, given)


def instructions(capture: Seen) -> int | None:
    """Returns the number of instructions of the optimised program, in all computations."""
    try:
        module = capture.optimized.module
    except LensError:
        return None
    return sum(len(region.nodes) for region in module.regions.values())


def devices(capture: Capture) -> int:
    """Returns the number of devices; a `shard_map` can have more than the inputs are on."""
    return max(capture.program.target.devices, partitions(head(capture)))


def head(capture: Capture) -> str:
    """Returns the beginning of the program's text, which declares its devices and mesh."""
    try:
        return capture.stablehlo.raw[:_HEAD]
    except UnavailableError:  # opened from a later stage; its target has the number of devices
        return ""
