"""Splits a line of printed MLIR into pieces: the kind of each token, and the folds.

Long attributes and constants, long lists of types, and attributes that all programs have are
folded; with its folds, a line has exactly the printed text.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from jaxlens.render.document import Kind, Piece

_LONG = 72  # characters of a constant, or of attributes in braces
_LONG_TYPES = 100
_ALIKE = ("jax.result_info", "mhlo.num_partitions")
_HEAD = re.compile(r"(%[\w$.-]+(?::\d+)?)( = )(\"?[\w.]+\"?)")
_WORD = re.compile(r"\"?[a-z_][\w.]*\"?")
_TOKEN = re.compile(
    r"""(?P<name>%[\w$.-]+(?:\#\d+)?)
      | (?P<keyword>@(?:[\w$.-]+|"[^"]*"))
      | (?P<literal>dense(?:_resource)?<(?:"[^"]*"|[^">])*>|"(?:[^"\\]|\\.)*")
      | (?P<type>(?:tensor|memref|vector)<(?:[^<>]|<[^<>]*>)*>|![a-z]\w*\.\w+)
      | (?P<open><?[({\[])
      | (?P<close>[)}\]]>?)
      | (?P<types>[ ]:[ ])
      | (?P<other>->|[\w.$\-]+|[ ,=]+|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS: dict[str, Kind] = {
    "name": "name",
    "keyword": "keyword",
    "literal": "literal",
    "type": "type",
}
_KEYWORDS = frozenset({"return", "cond", "do", "module", "func.func", "public", "private"})

Word = tuple[int, Kind, str]
"""Position, kind and text of a token."""


def pieces(text: str) -> tuple[Piece, ...]:
    """Returns the pieces of a line, left to right.

    Args:
        text: The line, without its indentation.
    """
    start, head = _head(text)
    tokens = list(_TOKEN.finditer(text, start))
    words = [*head, *((m.start(), _kind(m), m.group()) for m in tokens)]
    if len(text) > _LONG or "{" in text:
        words = _folded(words, sorted(_folds(tokens, text)))
    return tuple(_merged((kind, word) for _, kind, word in words))


def _folded(words: Iterable[Word], folds: Sequence[tuple[int, int]]) -> list[Word]:
    """Returns the words, with the kind "fold" for those within a fold; both arguments sorted."""
    kinds: list[Word] = []
    opened, end = 0, 0
    for at, kind, word in words:
        while opened < len(folds) and folds[opened][0] <= at:
            end = max(end, folds[opened][1])
            opened += 1
        kinds.append((at, "fold" if at < end else kind, word))
    return kinds


def _merged(words: Iterable[tuple[Kind, str]]) -> Iterator[Piece]:
    """Joins neighbouring words of one kind into one piece."""
    for kind, run in groupby(words, key=itemgetter(0)):
        yield Piece("".join(word for _, word in run), kind)


def _head(text: str) -> tuple[int, list[Word]]:
    """Returns where an op's results and name end, and their words."""
    if match := _HEAD.match(text):
        name, equals, op = match.groups()
        first, second = len(name), len(name) + len(equals)
        return match.end(), [(0, "name", name), (first, "", equals), (second, "op", op)]
    if match := _WORD.match(text):
        word = match.group()
        keyword = word in _KEYWORDS or word.endswith(".return")
        return match.end(), [(0, "keyword" if keyword else "op", word)]
    return 0, []


def _kind(match: re.Match[str]) -> Kind:
    group = match.lastgroup or ""
    if group == "other" and match.group() in _KEYWORDS:
        return "keyword"
    return _KINDS.get(group, "")


def _folds(tokens: list[re.Match[str]], text: str) -> Iterator[tuple[int, int]]:
    """Yields start and end of each fold."""
    opened: list[re.Match[str]] = []
    types = len(text)
    for token in tokens:
        group = token.lastgroup
        if group == "open":
            opened.append(token)
        elif group == "close" and opened:
            first = opened.pop()
            if "{" in first.group() and _is_noise(text[first.start() : token.end()]):
                yield _with_word_before(first.start(), text), token.end()
        elif group == "types" and not opened:
            types = token.start()
        elif group == "literal" and len(token.group()) > _LONG:
            yield token.span()
    if len(text) - types > _LONG_TYPES:
        yield types, len(text)


def _is_noise(braces: str) -> bool:
    return len(braces) > _LONG or any(word in braces for word in _ALIKE)


def _with_word_before(start: int, text: str) -> int:
    """Returns the start of the braces, including a space or ` attributes ` before them."""
    before = text[:start]
    kept = before.rstrip(" ").removesuffix(" attributes")
    return len(kept)
