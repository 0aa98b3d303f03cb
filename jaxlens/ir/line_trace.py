"""What happened while a function was traced, step by step: data of a capture, free of JAX."""

from dataclasses import dataclass
from typing import Literal

Event = Literal["call", "line", "return", "after", "yield", "resume"]


@dataclass(frozen=True, slots=True)
class Bound:
    """A variable and what it was bound to, in words: "tracer f32[3,4]", "3"."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class TapeStep:
    """One line of Python that ran while JAX traced.

    Attributes:
        event: "call" where a function began, "line", "return" where it ended, "yield" and
            "resume" where a generator paused and went on, and "after" for what JAX wrote down
            when the function was done, such as a backward pass.
        key: The file as Python knows it, the key of `Capture.sources`.
        file: The same as it is shown.
        line: Line number.
        function: Qualified name.
        depth: Calls of user functions around it.
        bound: Variables that it bound anew, or changed.
        made: Ids of the equations that it recorded.
        printed: What it wrote to standard output: it does so now, and in no later call.
        wrote: Global names and outer containers that it changed, likewise.
        raised: Name of the exception that it raised, or that came from a call in it.
    """

    event: Event
    key: str
    file: str
    line: int
    function: str
    depth: int
    bound: tuple[Bound, ...] = ()
    made: tuple[str, ...] = ()
    printed: str = ""
    wrote: tuple[str, ...] = ()
    raised: str = ""


@dataclass(frozen=True, slots=True)
class Tape:
    """All steps of one trace, in order.

    Attributes:
        steps: The steps.
        cut: Whether there were more than are kept.
    """

    steps: tuple[TapeStep, ...]
    cut: bool = False
