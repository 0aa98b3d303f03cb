"""An exception of a learner's code in one sentence, with the lines that it went through."""

import linecache
import re
import textwrap
import traceback
from dataclasses import dataclass
from pathlib import Path

from jaxlens.ir.spans import describe

_ADDRESS = re.compile(r" at 0x[0-9a-f]+(?=>)")  # of a function's repr: another in every run
_OURS = str(Path(__file__).parent)  # JAX says which function it traced: here that of a check
_FRAMES = 6  # lines of a text at each end of a recursion
_LONG = 160  # characters of a message in a sentence

# JAX's messages for these begin with the method that Python or NumPy called on a tracer.
_MEANINGS = {
    "TracerArrayConversionError": "NumPy needs numbers, and a tracer has none",
    "TracerBoolConversionError": "Python asks whether a tracer is true, and it has no value",
    "TracerIntegerConversionError": "Python needs a whole number, and a tracer has no value",
    "ConcretizationTypeError": "Python needs a number, and a tracer has no value",
    "NonConcreteBooleanIndexError": "a shape would depend on values, and a tracer has none",
}


@dataclass(frozen=True, slots=True)
class UserError:
    """Where and why an answer raised.

    Attributes:
        sentence: One line: the exception, its line and the first line of its message.
        text: The learner's frames, outermost first, and the whole message.
        in_answer: Whether one of the frames is the learner's.
    """

    sentence: str
    text: str
    in_answer: bool


def shortened(message: str) -> str:
    """Returns the first line of a message, without the elements of an array or the end of it."""
    first = message.partition("\n")[0].rstrip(":").partition(", [")[0]
    if first.startswith("unhashable type"):
        return f"{first}; the key of a dict must be hashable, such as a tuple"
    return textwrap.shorten(first, _LONG, placeholder=" ...")


def user_error(error: BaseException) -> UserError:
    """Describes an exception by the frames that are no library's."""
    frames = [
        (frame.lineno or 0, frame.name, (frame.line or "").strip())
        for frame in traceback.extract_tb(error.__traceback__)
        if not describe(frame.filename).library
    ]
    linecache.checkcache()
    told = (line for line in str(error).strip().splitlines() if _OURS not in line)
    kind, message = type(error).__name__, _ADDRESS.sub("", "\n".join(told))
    first = _MEANINGS.get(kind) or shortened(message)
    place = f" in line {frames[-1][0]}, `{frames[-1][2]}`" if frames and frames[-1][2] else ""
    sentence = f"{kind}{place}: {first}" if first else f"{kind}{place}"
    lines = [f"line {number}, in {name}\n    {text}" for number, name, text in frames]
    if len(lines) > 2 * _FRAMES:
        lines[_FRAMES:-_FRAMES] = [f"... {len(lines) - 2 * _FRAMES:,} more"]
    return UserError(sentence, "\n".join([*lines, f"{kind}: {message}"]), bool(frames))
