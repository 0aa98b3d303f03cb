"""Fields of a frozen dataclass that are made when first read, in a subclass of it.

A property in the subclass hides the slot of the same name, which holds the value once there
is one. A field that is set from outside, as by `dataclasses.replace`, goes to the slot too.
"""

from collections.abc import Callable
from typing import Any


def late(subclass: type, **makers: Callable[[Any], object]) -> None:
    """Gives the subclass a property per field; `makers` say how to make a value of an object."""
    for name, make in makers.items():
        slot = next(vars(base)[name] for base in subclass.__mro__[1:] if name in vars(base))
        setattr(subclass, name, _property(slot, make))


def _property(slot: Any, make: Callable[[Any], object]) -> property:
    def read(self: object) -> object:
        try:
            return slot.__get__(self)
        except AttributeError:
            pass
        value = make(self)
        slot.__set__(self, value)
        return value

    return property(read, slot.__set__)
