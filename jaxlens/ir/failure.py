"""Why tracing a call failed: data, free of JAX."""

from dataclasses import dataclass
from typing import Literal

Mistake = Literal[
    "condition",
    "number",
    "shape",
    "size",
    "mask",
    "numpy",
    "in place",
    "hash",
    "format",
    "leak",
    "key as data",
    "data as key",
    "static",
    "carry",
    "branches",
    "other",
]
"""What was asked of a traced value that it cannot give; "other" for what JAX's message must say."""


@dataclass(frozen=True, slots=True)
class TracedValue:
    """A traced value that the failing line used.

    Attributes:
        text: What the line calls it: "y.sum() > 0".
        type: Its type: "bool[]".
        made: The equation that made it, in words: "bool[] = gt f32[] 0.0"; "" for an argument.
        made_at: The line of that equation: "cell 2:3", "" where it is not known.
        arguments: The arguments of `function` that it is computed from.
        function: The function that was being traced.
    """

    text: str
    type: str
    made: str = ""
    made_at: str = ""
    arguments: tuple[str, ...] = ()
    function: str = ""


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to write instead.

    Attributes:
        text: What it does, in a sentence without its full stop.
        code: Python that does it; "" where it cannot be written down for this line.
        outcome: What came of trying it; "" where it was not tried.
    """

    text: str
    code: str = ""
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class Ran:
    """A line that ran before the failing one, or that one.

    Attributes:
        place: "cell 2:3".
        code: The line.
        depth: Calls of the user's functions around it.
        bound: Variables that it bound, with what they were bound to.
        recorded: The equations that it recorded, in words.
        raised: Name of the exception that it raised, "" for none.
    """

    place: str
    code: str
    depth: int
    bound: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()
    raised: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why tracing a call failed.

    Attributes:
        error: The exception's type: "TracerBoolConversionError".
        message: What it says, its first line.
        mistake: What was asked of a traced value.
        name: What the traced function is called.
        place: The failing line: "cell 2:3"; "" where no line of the user's is known.
        code: Its text.
        library: Whether that line is a library's, because none of the user's took part.
        value: The traced value that could not give what was asked; None where it is not known.
        operands: Arrays that the line names, each with its type: "w: f32[9]".
        remedies: What to write instead.
        steps: The lines that ran, the failing one last.
        skipped: How many ran before the first of `steps`.
    """

    error: str
    message: str
    mistake: Mistake
    name: str = ""
    place: str = ""
    code: str = ""
    library: bool = False
    value: TracedValue | None = None
    operands: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    steps: tuple[Ran, ...] = ()
    skipped: int = 0
