"""Where keys come from: a call of a function, and the keys that its tracer keeps of it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from jaxlens.ir.compile_log import CallKey, KeyPart
from jaxlens.ir.facts import Verdict

Key = TypeVar("Key")

EAGER = "{name} is not jitted; called like this it runs op by op and has no cache of its own"


class KeySource(ABC, Generic[Key]):
    """One call. JAX and `jaxlens.core` each have a key for it, and keys of earlier calls.

    Nothing is traced, and no entry is made.

    Attributes:
        name: The function's name.
    """

    name: str

    @abstractmethod
    def key(self) -> Key | None:
        """The key of the call; None where it is hidden.

        Raises:
            TypeError: The tracer would refuse an argument.
            ValueError: A static argument cannot be hashed.
        """

    @abstractmethod
    def parts(self, key: Key, every: bool = False) -> Iterable[KeyPart]:
        """A key as rows, with `every` also those that have their usual values."""

    @abstractmethod
    def verdict(self) -> Verdict:
        """Whether the call would hit, and what differs from the nearest earlier key if not."""

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
