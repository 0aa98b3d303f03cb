"""The signs and tints that stand with a fate's word in a diff; the word carries the meaning."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mark:
    """A sign of one character, and a tint that text reads on in both themes ("" for none)."""

    sign: str
    tint: str = ""


# Tints are Okabe and Ito's hues at a quarter of their strength, as #rgba.
_MARKS: Mapping[str, Mark] = {
    "same": Mark("="),
    "fused": Mark(">", "#07b4"),
    "rewritten": Mark("~", "#e904"),
    "merged": Mark("&", "#c7a4"),
    "folded": Mark("*", "#5be4"),
    "removed": Mark("-", "#d504"),
    "added": Mark("+", "#0974"),
    "renamed": Mark("@"),
    "moved": Mark("^"),
    "adjusted": Mark("."),
}


def mark(fate: str) -> Mark:
    """The mark of a fate; a dot for one that has no sign of its own, nothing for ""."""
    return _MARKS.get(fate, Mark("." if fate else " "))
