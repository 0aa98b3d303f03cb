"""The program that reports quote and views list, and what several questions ask of it."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

from jaxlens.captures import Capture
from jaxlens.errors import LensError, UnavailableError
from jaxlens.ir.driver import Driver
from jaxlens.ir.facts import Program, Target
from jaxlens.ir.hlo.shardings import partitions

T = TypeVar("T")
D = TypeVar("D")
_NUMBER = re.compile(r"\d{1,6}")
_HEAD = 20_000  # characters of a program within which it declares its devices and mesh


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

    def or_else(self, default: D) -> T | D:
        """Returns the value, or `default` where the backend or the capture does not provide it.

        Raises:
            LensError: Another error than `UnavailableError`, such as a text that cannot be read.
        """
        try:
            return self.get()
        except UnavailableError:
            return default

    @property
    def lacking(self) -> str:
        """Why the value is missing; "" where it is there."""
        try:
            self.get()
        except UnavailableError as why:
            return str(why)
        return ""


NO_PROGRAM = Capture(Program("", (), (), Target("", "")), Driver())
"""The default program of facts that are constructed without a capture."""


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """Base class of facts whose report or view lists parts of the program with the figures."""

    _subject: Capture = field(default=NO_PROGRAM, repr=False, compare=False, kw_only=True)

    def subject(self) -> Capture:
        """Returns the parts of the program that the question reads."""
        return self._subject


class Forwarding:
    """Base class of facts that hold a record of figures, whose attributes can be read from both.

    `jaxlens.memory(f).code` is `jaxlens.memory(f).sizes.code`. A subclass gives the class of the
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


def instructions(capture: Capture) -> int | None:
    """Returns the number of instructions of the optimised program, in all computations."""
    try:
        return capture.optimized.module.size
    except LensError:
        return None


def devices(capture: Capture) -> int:
    """Returns the number of devices; a `shard_map` can have more than the inputs are on."""
    if text := head(capture):
        return max(capture.program.target.devices, partitions(text))
    # Opened from a later stage, of which HLO text says it itself.
    hlo = Given(lambda: capture.hlo.module).or_else(None)
    module = hlo or Given(lambda: capture.optimized.module).or_else(None)
    number = module.attrs.get("num_partitions", "") if module else ""
    return max(capture.program.target.devices, int(number) if _NUMBER.fullmatch(number) else 1)


def head(capture: Capture) -> str:
    """Returns the beginning of the program's text, which declares its devices and mesh."""
    return Given(lambda: capture.stablehlo.raw[:_HEAD]).or_else("")
