"""The arrays that live on the devices of a process, by the names that hold them."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LiveArray:
    """One array in the memory of one or more devices; arrays of one buffer are one.

    Attributes:
        names: Names in the user's namespace that lead to it: "params['w']"; the plainest first,
            none for what only JAX, a library or a running function holds.
        type: "f32[128,4]".
        by_device: Bytes on each device.
        sharding: How it is split: "P('data', None) over data=4"; "" on one device.
        new: Whether it was not there at the last look.
    """

    names: tuple[str, ...]
    type: str
    by_device: Mapping[str, int]
    sharding: str = ""
    new: bool = False

    @property
    def bytes(self) -> int:
        """Bytes on all devices."""
        return sum(self.by_device.values())

    @property
    def name(self) -> str:
        """The plainest name; "" if it has none."""
        return self.names[0] if self.names else ""


@dataclass(frozen=True, slots=True)
class GoneArray:
    """An array of the last look that lives no more: freed, deleted or donated."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class LiveArrays:
    """One look at a process.

    Attributes:
        arrays: The live arrays.
        deleted: Names that still hold an array which was deleted or donated.
        first: Whether there was no look before this one.
        gone: Arrays of the last look that live no more.
        allocated: Bytes in use by the device's allocator, where it tells.
    """

    arrays: tuple[LiveArray, ...]
    deleted: tuple[str, ...] = ()
    first: bool = True
    gone: tuple[GoneArray, ...] = ()
    allocated: Mapping[str, int] = field(default_factory=dict)
