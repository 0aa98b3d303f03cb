"""Why tracing a call failed, as data without JAX objects."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TracedValue:
    """A traced value that the failing line used.

    Attributes:
        text: What the line calls it: "y.sum() > 0".
        type: Its type: "bool[]".
        made: The equation that computed it: "bool[] = gt f32[] 0.0"; "" for an argument.
        made_at: The line of that equation: "cell 2:3", "" where it is not known.
        arguments: The arguments of `function` that it depends on.
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
    """A change of the code that avoids the failure.

    Attributes:
        text: What it does, in a sentence without its full stop.
        code: The Python code; "" where it cannot be derived from this line.
        outcome: The result of trying it; "" where it was not tried.
    """

    text: str
    code: str = ""
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why tracing a call failed.

    Attributes:
        error: The exception's type: "TracerBoolConversionError".
        message: What it says, its first line.
        mistake: What the code needed from a traced value, or JAX from an argument: a kind of
            `causes.tsv`; "" where the message alone says what failed.
        name: Name of the traced function.
        place: The failing line: "cell 2:3"; "" where no line of the user's is known.
        code: Its text.
        library: Whether that line is a library's, because no line of the user's is on the stack.
        value: The traced value; None where it is not known.
        operands: Arrays that the line names, each with its type: "w: f32[9]".
        remedies: Changes that avoid it.
        again: How often the function was traced again for this, which runs its Python.
        reason: Why it fails, a sentence without its full stop; "" where the message alone says it.
    """

    error: str
    message: str
    mistake: str
    name: str = ""
    place: str = ""
    code: str = ""
    library: bool = False
    value: TracedValue | None = None
    operands: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    again: int = 0
    reason: str = ""
