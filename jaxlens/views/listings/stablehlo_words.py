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
_LONG_LIST, _ITEMS = 12, 3  # items of a list that is folded, and how many of them are shown
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

Token = tuple[int, Kind, str]
"""Position, kind and text of a token."""


def pieces(text: str) -> tuple[Piece, ...]:
    """Returns the pieces of a line, left to right.

    Args:
        text: The line, without its indentation.
    """
    start, head = _head(text)
    matches = list(_TOKEN.finditer(text, start))
    tokens = [*head, *((m.start(), _kind(m), m.group()) for m in matches)]
    if len(text) > _LONG or "{" in text:
        tokens = _folded(tokens, sorted(_folds(matches, text)))
    runs = groupby(tokens, key=itemgetter(1))  # neighbouring tokens of one kind are one piece
    return tuple(Piece("".join(token for *_, token in run), kind) for kind, run in runs)


def _folded(tokens: Iterable[Token], folds: Sequence[tuple[int, int]]) -> list[Token]:
    """Returns the tokens, with the kind "fold" for those within a fold; both arguments sorted."""
    kinds: list[Token] = []
    opened, end = 0, 0
    for at, kind, token in tokens:
        while opened < len(folds) and folds[opened][0] <= at:
            end = max(end, folds[opened][1])
            opened += 1
        kinds.append((at, "fold" if at < end else kind, token))
    return kinds


def _head(text: str) -> tuple[int, list[Token]]:
    """Returns where an op's results and name end, and their tokens."""
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
    yield from _long_lists(tokens, len(text))
    for token in tokens:
        group = token.lastgroup
        if group == "open":
            opened.append(token)
        elif group == "close" and opened:
            first = opened.pop()
            start, end = first.start(), token.end()
            braces = text[start:end]
            noise = len(braces) > _LONG or any(word in braces for word in _ALIKE)
            if "{" in first.group() and noise:  # with a space or ` attributes ` before them
                yield len(text[:start].rstrip(" ").removesuffix(" attributes")), end
        elif group == "types" and not opened:
            types = token.start()
        elif group == "literal" and len(token.group()) > _LONG:
            yield token.span()
    if len(text) - types > _LONG_TYPES:
        yield types, len(text)


def _long_lists(tokens: Iterable[re.Match[str]], end: int) -> Iterator[tuple[int, int]]:
    """Yields what follows the first items of a list in parentheses, or of operands, if it is long.

    A train step has an argument and a result for each array of its state.
    """
    lists: list[list[int]] = [[]]  # positions of the commas of each list that is open
    for token in tokens:
        group, text = token.lastgroup, token.group()
        if group == "open":
            lists.append([])
        elif group == "types" and len(lists) == 1:
            yield from _behind(lists[0], token.start())
            lists[0] = []
        elif group == "close" and len(lists) > 1:
            commas = lists.pop()
            if text == ")":
                yield from _behind(commas, token.start())
        elif group == "other" and "," in text:
            lists[-1].append(token.start() + text.index(","))
    yield from _behind(lists[0], end)


def _behind(commas: Sequence[int], end: int) -> Iterator[tuple[int, int]]:
    if len(commas) + 1 >= _LONG_LIST:
        yield commas[_ITEMS - 1], end
