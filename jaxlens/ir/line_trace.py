"""The lines of Python that ran while a function was traced, as data without JAX objects."""

from dataclasses import dataclass
from typing import Literal

Event = Literal["call", "line", "return", "after", "yield", "resume"]


@dataclass(frozen=True, slots=True)
class Bound:
    """A variable and the value that it was bound to, as text: "tracer f32[3,4]", "3"."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class TracedLine:
    """One line of Python that ran while JAX traced.

    Attributes:
        event: "call" where a function began, "line", "return" where it ended, "yield" and
            "resume" where a generator paused and continued, and "after" for equations that JAX
            recorded when the function had returned, such as a backward pass.
        key: The file as Python knows it, the key of `Capture.sources`.
        file: The same file by its short name.
        line: Line number.
        function: Qualified name.
        depth: Number of user functions on the stack around it.
        bound: Variables that it bound or changed.
        made: Ids of the equations that it recorded.
        printed: What it wrote to standard output: while tracing only, not when the program runs.
        wrote: Global names and containers of outer scopes that it changed, while tracing only.
        raised: Name of the exception that it, or a call in it, raised.
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
class LineTrace:
    """All steps of one trace, in order.

    Attributes:
        steps: The steps.
        cut: Whether there were more steps than are kept.
    """

    steps: tuple[TracedLine, ...]
    cut: bool = False
