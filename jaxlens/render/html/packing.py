"""Text deflated and written in characters that HTML, JSON and JavaScript do not escape.

Base85, four bytes in five characters, is 6 % shorter than Base64. Python's own alphabet has
characters that would need escapes, so the digits are translated; `viewer/packing.js` reads
them.
"""

import base64
import zlib

BEST = 9  # deflation level
_QUICK = 4
_LONG = 60_000  # characters, from which on the quick level saves three quarters of the time

# Digits in order from "(" on, with two others for "<" and for a backslash.
_DIGITS = bytes(range(40, 125)).translate(bytes.maketrans(b"<\\", b"}~"))
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
