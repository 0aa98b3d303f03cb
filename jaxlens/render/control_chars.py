"""Makes invisible characters visible, in text and in HTML.

A name in a user's program may contain any character: control characters that a terminal
executes, bidirectional overrides that make code read as different code, lone surrogates that
cannot be encoded.
"""

import re

# Not replaced: joiners, which scripts and emoji need, and the tab.
_UNSEEN = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_FLAT_INDEX = re.compile(r"\[<flat index (\d+)>\]")


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"<U+{code:04X}>"


def visible(text: str) -> str:
    """Returns one line of text with each invisible character replaced by a visible one.

    C0 controls become their control pictures (`\\x00` is `␀`), the others their code point
    (`<U+202E>`). Split text into lines first: a line break is a control character too.

    JAX's name of a leaf of a class without field names, `p[<flat index 0>]`, is written `p leaf 0`.
    """
    if "[<flat index " in text:
        text = _FLAT_INDEX.sub(r" leaf \1", text)
    if text.isascii() and text.isprintable():
        return text
    return _UNSEEN.sub(_shown, text)
