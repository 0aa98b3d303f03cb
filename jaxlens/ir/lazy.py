"""Values that are computed on first use: most of a large program is never looked at.

- `lazy` makes an instance of a frozen dataclass without some of its fields; `LazyFields` is the
  base class for the same where there are many instances, which then share one table of makers.
- `LazyDict` is a dictionary that is made as a whole, `LazyMapping` one that is made value by value.
- `ComputedSequence` makes an item each time, `LazySequence` keeps the items that it made.

Whoever reads such a value sees the dataclass, the mapping or the sequence that it stands for.
"""

from abc import abstractmethod
from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache, cached_property
from typing import Any, TypeVar, overload

T = TypeVar("T")
V = TypeVar("V")


class LazyFields:
    """Fields of a frozen dataclass with slots that are made when first read.

    A subclass of the dataclass and of this one is created with some slots empty. Python asks
    `__getattr__` only where a slot is empty, so a field costs nothing more once it is there.

    Attributes:
        _makers: Makes the value of a field from the object, by the field's name.
    """

    __slots__ = ()
    _makers: Mapping[str, Callable[[Any], object]]

    def __getattr__(self, name: str) -> Any:
        make = None if name == "_makers" else self._makers.get(name)
        if make is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = make(self)
        object.__setattr__(self, name, value)
        return value


def unfilled(kind: type[T], /, **values: object) -> T:
    """An instance of a frozen dataclass with these fields set and the others empty."""
    instance = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(instance, name, value)
    return instance


def lazy(kind: type[T], makers: Mapping[str, Callable[[Any], object]], /, **values: object) -> T:
    """An instance of a frozen dataclass with slots, some of whose fields are made when first read.

        pane = lazy(GraphPane, {"figure": lambda _: draw(module), "alt": describe})

    Args:
        kind: The dataclass.
        makers: Makes the value of a field from the instance.
        values: The other fields, all of them.
    """
    dataclass: Any = kind  # which mypy does not take for hashable
    instance: T = unfilled(_with_makers(dataclass), _makers=makers, **values)
    return instance


@cache
def _with_makers(kind: Any) -> Any:
    """The subclass of a dataclass that has a slot for makers."""
    names = [field.name for field in fields(kind)]
    namespace = {
        "__slots__": ("_makers",),
        "__eq__": lambda self, other: isinstance(other, kind) and same_fields(kind, self, other),
        "__hash__": kind.__hash__,
        "__reduce__": lambda self: (kind, tuple(getattr(self, name) for name in names)),
    }
    return type(f"Lazy{kind.__name__}", (LazyFields, kind), namespace)


def same_fields(kind: type[Any], left: object, right: object) -> bool:
    """Whether two instances of a dataclass, or of subclasses of it, have equal fields."""
    names = (field.name for field in fields(kind))
    return all(getattr(left, name) == getattr(right, name) for name in names)


class LazyDict(Mapping[str, V]):
    """A dictionary that is made when it is first looked at."""

    def __init__(self, make: Callable[[], dict[str, V]]) -> None:
        self._make = make

    @cached_property
    def _values(self) -> dict[str, V]:
        return self._make()

    def __getitem__(self, key: str) -> V:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def items(self) -> ItemsView[str, V]:
        """All of them, without a look-up each."""
        return self._values.items()


class LazyMapping(Mapping[str, V]):
    """A mapping whose values are made one by one when first asked for, and then kept.

    A subclass gives `_value` and `__iter__`, and `__contains__` and `__len__` where these need
    no value (`if mapping:` asks for the length).
    """

    def __init__(self) -> None:
        self._kept: dict[str, V] = {}

    @abstractmethod
    def _value(self, key: str) -> V:
        """Makes the value of a key; raises KeyError where there is none."""

    def __getitem__(self, key: str) -> V:
        value = self._kept.get(key)
        if value is None:
            value = self._kept[key] = self._value(key)
        return value

    def __len__(self) -> int:
        return sum(1 for _ in self)


class ComputedSequence(Sequence[T]):
    """A sequence whose items are made from their index each time.

    A subclass gives `_item` and `__len__`.
    """

    __slots__ = ()

    @abstractmethod
    def _item(self, index: int) -> T:
        """The item at an index from 0 on, which there is."""

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple([self._item(n) for n in range(*index.indices(len(self)))])
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(index)
        return self._item(place)

    def __iter__(self) -> Iterator[T]:
        return map(self._item, range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(len(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


class LazySequence(ComputedSequence[T]):
    """A sequence whose items are made one by one when first looked at, and then kept."""

    __slots__ = ("_count", "_items", "_make", "_whole")

    def __init__(self, count: int, make: Callable[[int], T]) -> None:
        self._count = count
        self._make = make
        self._items: dict[int, T] = {}
        self._whole: tuple[T, ...] | None = None  # all items, from the second iteration over all on

    def __len__(self) -> int:
        return self._count

    def _item(self, index: int) -> T:
        item = self._items.get(index)
        if item is None:
            item = self._items[index] = self._make(index)
        return item

    def __iter__(self) -> Iterator[T]:
        if self._whole is None:
            if len(self._items) < self._count:
                return map(self._item, range(self._count))
            self._whole = tuple([self._items[index] for index in range(self._count)])
        return iter(self._whole)
