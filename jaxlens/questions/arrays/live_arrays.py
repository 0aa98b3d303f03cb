"""The arrays that live on the devices of a process, by the names that hold them."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

TRACEBACK = "traceback of"
"""In the name of an array that a traceback keeps: "x in f (traceback of KeyError)"."""
_ROOT = re.compile(r"(?:.* in )?(\w+)")


def root(name: str) -> str:
    """Returns the variable of a name: `params` of `params['w']`, `f` of `table in f`."""
    match = _ROOT.match(name)
    return match[1] if match else name


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
class HeldArrays:
    """What one variable holds.

    Attributes:
        name: The variable: "params".
        arrays: Number of arrays.
        bytes: Bytes on all devices.
        new_arrays: Number of those that were not there at the last look.
        new_bytes: Bytes of those.
        before: Number of arrays at the last look.
        grew: By how many bytes it grew since the last look.
        made: The lines that made the new ones, the most frequent first.
    """

    name: str
    arrays: int
    bytes: int
    new_arrays: int
    new_bytes: int
    before: int
    grew: int
    made: tuple[str, ...]


@dataclass(frozen=True)
class LiveArrays:
    """One look at a process; sizes are counted from shapes and dtypes.

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

    @cached_property
    def named(self) -> tuple[LiveArray, ...]:
        """Arrays that a variable leads to, the largest first."""
        named = (array for array in self.arrays if array.names)
        return tuple(sorted(named, key=lambda array: (-array.bytes, array.name)))

    @property
    def unnamed(self) -> tuple[LiveArray, ...]:
        """The others: JAX's own constants, values of libraries and running functions."""
        return tuple(array for array in self.arrays if not array.names)

    @property
    def bytes(self) -> int:
        """Bytes of all live arrays, on all devices."""
        return size(self.arrays)

    @property
    def by_device(self) -> Mapping[str, int]:
        """Bytes of all live arrays, by device."""
        return by_device(self.arrays)

    @property
    def new(self) -> tuple[LiveArray, ...]:
        """Arrays that were not there at the last look."""
        return () if self.first else tuple(array for array in self.arrays if array.new)

    @cached_property
    def by_variable(self) -> tuple[HeldArrays, ...]:
        """What each variable holds, the most bytes first."""
        held, gone = (
            defaultdict[str, list[LiveArray]](list),
            defaultdict[str, list[GoneArray]](list),
        )
        for array in self.named:
            held[root(array.name)].append(array)
        for lost in self.gone:
            gone[root(lost.name)].append(lost)
        variables = (self._held(name, arrays, gone[name]) for name, arrays in held.items())
        return tuple(sorted(variables, key=lambda variable: (-variable.bytes, variable.name)))

    def _held(self, name: str, held: list[LiveArray], gone: list[GoneArray]) -> HeldArrays:
        new = [array for array in held if array.new and not self.first]
        return HeldArrays(
            name,
            len(held),
            size(held),
            len(new),
            size(new),
            len(held) - len(new) + len(gone),
            size(new) - size(gone),
            lines(new),
        )


def size(arrays: Iterable[LiveArray | GoneArray]) -> int:
    """Returns the bytes of arrays on all devices."""
    return sum(array.bytes for array in arrays)


def lines(arrays: Iterable[LiveArray]) -> tuple[str, ...]:
    """Returns the lines that made arrays, the most frequent first."""
    made = Counter(array.made for array in arrays if array.made)
    return tuple(line for line, _ in made.most_common())


def by_device(arrays: Iterable[LiveArray]) -> dict[str, int]:
    """Returns the bytes of arrays by device."""
    sums: Counter[str] = Counter()
    for array in arrays:
        sums.update(array.by_device)
    return dict(sorted(sums.items()))
