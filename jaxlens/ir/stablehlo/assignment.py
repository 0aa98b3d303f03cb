"""Sets many attributes, all of them also where the user interrupts."""

from collections.abc import Iterable
from typing import Any


def assign(name: str, values: Iterable[tuple[Any, Any]]) -> None:
    """Sets the attribute of each object, in order.

    Args:
        name: The attribute.
        values: Pairs of object and value; gone through again after an interrupt.

    Raises:
        KeyboardInterrupt: The user interrupted; it comes out when all is set.
    """
    interrupt: KeyboardInterrupt | None = None
    while True:
        try:
            for thing, value in values:
                setattr(thing, name, value)
            break
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt
