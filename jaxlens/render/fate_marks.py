"""Signs and tints of fates in a diff; they accompany the fate's word, which carries the meaning."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mark:
    """A sign of one character, and a background tint legible in both themes ("" for none)."""

    sign: str
    tint: str = ""


# Tints are Okabe and Ito's hues at a quarter of their strength, as #rgba.
MARKS: Mapping[str, Mark] = {
    "same": Mark("="),
    "adjusted": Mark("."),
    "moved": Mark("^"),
    "renamed": Mark("@"),
    "rewritten": Mark("~", "#e904"),
    "fused": Mark(">", "#07b4"),
    "merged": Mark("&", "#c7a4"),
    "folded": Mark("*", "#5be4"),
    "removed": Mark("-", "#d504"),
    "added": Mark("+", "#0974"),
}


def mark(fate: str) -> Mark:
    """Returns the mark of a fate; its sign is "." for an unknown fate and a space for ""."""
    return MARKS.get(fate, Mark("." if fate else " "))
