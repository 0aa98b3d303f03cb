"""The event stream: each step of the machinery, as it happens.

    with listen(lambda event: print(event.kind, event.name)):
        grad(sin)(1.0)

Without a listener a step costs one test of an empty tuple.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from jaxlens.core.kernel.interpreter import observer


class Event(NamedTuple):
    """A step of the machinery.

    Attributes:
        kind: "bind" (a primitive is applied), "record" (an equation is recorded), "rule" (a rule
            of a primitive is used), "trace" (a function was traced), "cache" (a program was
            looked up), "lower", "compile", "run".
        name: The name of the primitive or function.
        detail: What the step was about, such as the interpreter, the equation, hit or miss.
    """

    kind: str
    name: str
    detail: dict[str, Any]


@contextmanager
def listen(listener: Callable[[Event], None]) -> Iterator[None]:
    """Calls `listener` with each step that happens within the `with`."""

    def notify(kind: str, name: str, detail: dict[str, Any]) -> None:
        listener(Event(kind, name, detail))

    observer.listeners = (*observer.listeners, notify)
    try:
        yield
    finally:
        observer.listeners = tuple(other for other in observer.listeners if other is not notify)
