"""Fields of a frozen dataclass that are made when first read, in a subclass of it.

Such an object is made with some slots empty. Python asks `__getattr__` only where a slot is
empty, so a field costs nothing more once it is there.
"""

from collections.abc import Callable, Mapping
from typing import Any


def fill(made: object, name: str, makers: Mapping[str, Callable[[Any], object]]) -> object:
    """What the subclass's `__getattr__` returns: the value, which is kept in its slot.

    Args:
        made: The object.
        name: The attribute that it lacks.
        makers: Makes the value of a field from the object.

    Raises:
        AttributeError: It is no such field.
    """
    make = makers.get(name)
    if make is None:
        raise AttributeError(f"{type(made).__name__!r} object has no attribute {name!r}")
    value = make(made)
    object.__setattr__(made, name, value)
    return value
