"""Text deflated and written in characters that HTML, JSON and JavaScript do not escape.

Base85, four bytes in five characters, is 6 % shorter than Base64. Python's own alphabet has
characters that would need escapes, so the digits are translated; `viewer/packing.js` reads
them.

Names in programs differ by their numbers: of 12 layers `fusion.267` is a name of thousands. Text
with such names is written with the step from the number that the same name had before, which
deflates to half (`stepped`).
"""

import base64
import re
import zlib
from collections import defaultdict

BEST = 9  # deflation level
_QUICK = 7  # half the time of the best, and 4 % more bytes
_LONG = 60_000  # characters, from which on the quick level saves three quarters of the time

# Digits in order from "(" on, with two others for "<" and for a backslash.
_DIGITS = bytes(range(40, 125)).translate(bytes.maketrans(b"<\\", b"}~"))
# As viewer/elements.js has it, in the form that Python searches in two thirds of the time.
_NAME = r"(%|\b[A-Za-z_](?:[\w-]*+\.|[A-Za-z_]{2,}+|(?<=[esES])))"
_NUMBERED = re.compile(rf"{_NAME}(0|[1-9]\d{{0,6}})(?!\d)", re.ASCII)
_HALF = 5_000_000  # half of the numbers that are stepped
_STANDARD = bytes(base64.b85encode(bytes([0, 0, 0, n]))[-1] for n in range(85))
_WRITTEN, _READ = bytes.maketrans(_STANDARD, _DIGITS), bytes.maketrans(_DIGITS, _STANDARD)


def packed(text: str, level: int | None = None) -> str:
    """The text, deflated.

    Args:
        text: Anything, lone surrogates too.
        level: Of the deflation; by the length of the text where None.
    """
    level = level or (BEST if len(text) < _LONG else _QUICK)
    engine = zlib.compressobj(level, zlib.DEFLATED, -15, 6)
    data = engine.compress(text.encode(errors="surrogatepass")) + engine.flush()
    return base64.b85encode(data).translate(_WRITTEN).decode()


def unpacked(pack: str) -> str:
    """The text that `packed` wrote, for tests and other readers."""
    data = base64.b85decode(pack.encode().translate(_READ))
    return zlib.decompress(data, -15).decode(errors="surrogatepass")


def stepped(text: str) -> str:
    """The text with the number of each name, as in `add.7`, `%7`, `e7`, `layer7`, as a step.

    A step is from the number that the last such name had: 0, -1, 1, -2, ... are written 0, 1, 2,
    3, ... Numbers of at most 7 digits are stepped, and wrap round, so steps are such numbers too.
    """
    last: defaultdict[str, int] = defaultdict(int)
    parts = _NUMBERED.split(text)  # text, name, digits, text, ...
    for place in range(2, len(parts), 3):
        name, number = parts[place - 1], int(parts[place])
        ahead = number - last[name]
        last[name] = number
        if not -_HALF <= ahead < _HALF:
            ahead = (ahead + _HALF) % (2 * _HALF) - _HALF
        parts[place] = str(2 * ahead if ahead >= 0 else -2 * ahead - 1)
    return "".join(parts)


def unstepped(text: str) -> str:
    """The text that `stepped` wrote, for tests and other readers."""
    last: defaultdict[str, int] = defaultdict(int)

    def number(match: re.Match[str]) -> str:
        name, step = match[1], int(match[2])
        ahead = -(step + 1) // 2 if step % 2 else step // 2
        last[name] = (last[name] + ahead) % (2 * _HALF)
        return f"{name}{last[name]}"

    return _NUMBERED.sub(number, text)
