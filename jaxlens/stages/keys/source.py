"""What JAX and `jaxlens.core` have in common: both look calls up by keys and keep earlier ones."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from jaxlens.ir.compile_log import CallKey, KeyPart
from jaxlens.ir.facts import Verdict

Key = TypeVar("Key")

EAGER = "{name} is not jitted; called like this it runs op by op and has no cache of its own"


class KeySource(ABC, Generic[Key]):
    """A call, its key, and the keys of earlier calls of the function.

    Reading them traces nothing and makes no entry.

    Attributes:
        name: The function's name.
    """

    name: str

    @abstractmethod
    def key(self) -> Key | None:
        """The key of the call; None if it cannot be read.

        Raises:
            TypeError: The tracer would refuse an argument.
            ValueError: A static argument cannot be hashed.
        """

    @abstractmethod
    def parts(self, key: Key, every: bool = False) -> Iterable[KeyPart]:
        """The rows of a key; with `every` also options and settings that have their defaults."""

    @abstractmethod
    def verdict(self) -> Verdict:
        """Whether the call would hit; if not, what differs from the nearest earlier key."""

    def call_key(self) -> CallKey:
        """The key, part by part, with the verdict."""
        verdict = self.verdict()
        try:
            key = self.key()
        except (TypeError, ValueError, OverflowError):  # the verdict says why
            key = None
        if key is None:
            return CallKey(self.name, (), verdict)
        parts = tuple(self.parts(key))
        rest = tuple(part for part in self.parts(key, every=True) if part not in parts)
        return CallKey(self.name, parts, verdict, rest)
