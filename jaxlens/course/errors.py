"""An exception of a learner's code in one sentence, with the lines that it went through."""

import linecache
import re
import traceback
from dataclasses import dataclass
from pathlib import Path

from jaxlens.ir.spans import describe

_OWN = str(Path(__file__).parents[1])
_ADDRESS = re.compile(r" at 0x[0-9a-f]+(?=>)")  # of a function's repr: another in every run


@dataclass(frozen=True, slots=True)
class UserError:
    """Where and why an answer raised.

    Attributes:
        sentence: One line: the exception, its line and the first line of its message.
        text: The learner's frames, outermost first, and the whole message.
    """

    sentence: str
    text: str


def user_error(error: BaseException) -> UserError:
    """Describes an exception by the frames that are no library's."""
    frames = [
        (frame.lineno or 0, frame.name, (frame.line or "").strip())
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_OWN) and not describe(frame.filename).library
    ]
    linecache.checkcache()
    kind, message = type(error).__name__, _ADDRESS.sub("", str(error).strip())
    first = message.partition("\n")[0]
    place = f" in line {frames[-1][0]}, `{frames[-1][2]}`" if frames and frames[-1][2] else ""
    sentence = f"{kind}{place}: {first}" if first else f"{kind}{place}"
    lines = [f"line {number}, in {name}\n    {text}" for number, name, text in frames]
    return UserError(sentence, "\n".join([*lines, f"{kind}: {message}"]))
