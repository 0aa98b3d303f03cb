"""Splits a line of printed MLIR into pieces: the kind of each token, and the folds.

Long attributes and constants, long lists of types, and attributes that all programs have are
folded; with its folds, a line has exactly the printed text.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from jaxlens.render.control_chars import visible
from jaxlens.render.html.lazy_lines import LineForm, Rule
from jaxlens.render.html.marks import MARKS

_LONG = 72  # characters of a constant, or of attributes in braces
_LONG_TYPES = 100
_LONG_LIST, _ITEMS = 12, 3  # items of a list that is folded, and how many of them are shown
_ALIKE = ("jax.result_info", "mhlo.num_partitions")
_BEGINS, _ENDS = r"(?<![\w.$-])", r"(?![\w.$-])"  # of a word
_KEYWORDS = r"(?:return|cond|do|module|func\.func|public|private)"
_LITERAL = rf'{_BEGINS}dense(?:_resource)?<(?:"[^"]*"|[^">])*>|"(?:[^"\\]|\\.)*"'
_TYPE = rf"{_BEGINS}(?:tensor|memref|vector)<(?:[^<>]|<[^<>]*>)*>|![a-z]\w*\.\w+"
_MAY_FOLD = re.compile('["{]|dense')  # attributes and literals, beside lists
_RULE = Rule(
    (r'^( *)(%[\w$.-]+(?::\d+)?)( = )("?[\w.]+"?)', ("", "name", "", "op")),
    (rf'^( *)((?:[a-z_][\w.]*\.return|{_KEYWORDS})(?![\w."]))', ("", "keyword")),
    (r'^( *)("?[a-z_][\w.]*"?)', ("", "op")),
    (r"(%[\w$.-]+(?:#\d+)?)", ("name",)),
    (r'(@(?:[\w$.-]+|"[^"]*"))', ("keyword",)),
    (f"({_LITERAL})", ("literal",)),
    (f"({_TYPE})", ("type",)),
    (f"({_BEGINS}{_KEYWORDS}{_ENDS})", ("keyword",)),
)
# What tells folds; names and types are matched for the brackets that they may hold.
_TOKEN = re.compile(
    rf"""@"[^"]*" | (?P<literal>{_LITERAL}) | {_TYPE}
      | (?P<open><?[({{\[])
      | (?P<close>[)}}\]]>?)
      | (?P<types>[ ]:[ ])
      | (?P<comma>,)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


def _marked(text: str) -> str:
    """Returns a line with marks round what is folded."""
    if len(text) <= _LONG and "{" not in text:
        return text
    short_types = len(text) - text.find(" : ") <= _LONG_TYPES and text.count(",") < _LONG_LIST - 1
    if short_types and not _MAY_FOLD.search(text):
        return text
    parts: list[str] = []
    end = 0
    for start, stop in sorted(_folds(list(_TOKEN.finditer(text)), text)):
        if start > end or not parts:
            parts += ["\0" if parts else "", text[end:start], MARKS["fold"], text[start:stop]]
        elif stop > end:  # what is folded within it or beside it
            parts.append(text[end:stop])
        end = max(end, stop)
    return "".join([*parts, "\0" if parts else "", text[end:]])


FORM = LineForm(lambda text: _marked(visible(text)), _RULE)


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
        elif group == "comma":
            lists[-1].append(token.start())
    yield from _behind(lists[0], end)


def _behind(commas: Sequence[int], end: int) -> Iterator[tuple[int, int]]:
    if len(commas) + 1 >= _LONG_LIST:
        yield commas[_ITEMS - 1], end
