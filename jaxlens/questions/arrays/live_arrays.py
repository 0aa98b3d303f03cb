"""The arrays that live on the devices of a process, by the names that hold them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

TRACEBACK = "traceback of"
"""In the name of an array that a traceback keeps: "x in f (traceback of KeyError)"."""


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
        made: The user's line that made it: "cell 3:4"; "" if that is unknown.
        holder: What keeps it alive if no name leads to it: "the function train.step"; "" if that
            is unknown.
    """

    names: tuple[str, ...]
    type: str
    by_device: Mapping[str, int]
    sharding: str = ""
    new: bool = False
    made: str = ""
    holder: str = ""

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
        freed: Bytes that these arrays held on all devices.
        first: Whether there was no look before this one.
        gone: Arrays of the last look that live no more.
        allocated: Bytes in use by the device's allocator, where it tells.
    """

    arrays: tuple[LiveArray, ...]
    deleted: tuple[str, ...] = ()
    freed: int = 0
    first: bool = True
    gone: tuple[GoneArray, ...] = ()
    allocated: Mapping[str, int] = field(default_factory=dict)
