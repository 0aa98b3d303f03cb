"""Makes characters that a reader could not see visible, in every face.

A name in a user's program may hold anything: control characters that steer a terminal,
bidirectional overrides that make code read as what it is not, lone surrogates that cannot
be written to a file.
"""

import re

# Left alone: joiners, which scripts and emoji need, and the tab.
_UNSEEN = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"<U+{code:04X}>"


def visible(text: str) -> str:
    """One line of text with a sign in place of each character that has no shape.

    C0 controls become their pictures (`\\x00` is `␀`), the others their code point
    (`<U+202E>`). Cut text into lines before: a line break is a control too.
    """
    if text.isascii() and text.isprintable():
        return text
    return _UNSEEN.sub(_shown, text)
