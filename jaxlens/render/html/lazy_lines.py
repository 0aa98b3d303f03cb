"""Lines of a listing that are made on first use: most of a large program is never looked at.

A line has two forms. A `Line` is made of pieces, by which glossary, comparisons and diffs tell
names from other words, and one attribute from the next. A `Row` is what travels to scripts: one
string with a control character before each run of a kind, but for the kinds that the scripts find
by a `Rule`. A listing may give its lines as `WrittenLine`, of which either form is made: a row
takes half the time of the pieces or less.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice, repeat
from typing import NamedTuple, overload

from jaxlens.render.control_chars import visible
from jaxlens.render.document import Kind, Line, Listing, Piece
from jaxlens.render.html.marks import MARKS, begins_with_id, marked

FIRST_WORD = 1

Row = tuple[str, int | str, str]
"""A line for scripts: its text (`marks.marked`), its node, and its owner ("" for none).

The node is 0 for none and `FIRST_WORD` where it is the row's first word after ROOT; -n is that of
a line that folds n others.
"""

_FEW = 4_000  # lines that are kept when iterated
NAME, NEXT = "\x0e", "\x0f"
"""Marks for Python alone: a name, and the next piece, of the kind before; of none after a name."""
ROOT = f"{MARKS['keyword']}ROOT \0"
_MARKED = r"([\x01-\x08][^\0-\x08]*)"
_SIGN = re.compile(r"([\0-\x08\x0e\x0f])")
_SIGNS: Mapping[Kind, str] = {**MARKS, "name": NAME}
_KINDS = {sign: kind for kind, sign in _SIGNS.items()}


class WrittenLine(NamedTuple):
    """A line whose text a `LineForm` reads; the rest as in `Line`.

    A name that the text begins with, after ROOT, is the id.
    """

    text: str
    id: str = ""
    indent: int = 0
    line: str = ""
    folds: int = 0


class Rule:
    """How kinds of words are found in a language's text, by `LineForm` and by scripts.

    Args:
        *parts: Alternatives of a regular expression that Python and JavaScript read alike, each
            with the kinds of its groups, which cover all that it matches. Text between matches is
            plain. What is marked is passed over; "^" stands before the indentation.

    Attributes:
        source: The regular expression.
        signs: The mark of each of its groups.
    """

    def __init__(self, *parts: tuple[str, tuple[Kind, ...]]) -> None:
        self.source = "|".join([_MARKED, *(part for part, _ in parts)])
        self.signs = MARKS[""] + "".join(_SIGNS[kind] for _, kinds in parts for kind in kinds)
        self._pattern = re.compile(self.source, re.ASCII)

    def marked(self, text: str) -> str:
        """Returns the text with a mark before and behind each word of a kind."""
        return self._pattern.sub(self._mark, text)

    def _mark(self, match: re.Match[str]) -> str:
        words = zip(self.signs, match.groups(), strict=True)
        return "".join([f"{sign}{word}\0" for sign, word in words if word])

    def op(self, text: str) -> str:
        """Returns the operation that a line's first match has; "" for none."""
        match = self._pattern.match(text)
        words = zip(self.signs, match.groups(), strict=True) if match else ()
        return next((word for sign, word in words if word and sign == MARKS["op"]), "")


@dataclass(frozen=True, slots=True)
class LineForm:
    """How the text of the `WrittenLine` lines of a listing is read.

    Attributes:
        row: Returns a line's text with invisible characters replaced and a character of `MARKS`
            before each run of a kind that the rule does not find.
        rule: Finds the other kinds; None where all are marked.
    """

    row: Callable[[str], str]
    rule: Rule | None = None

    def pieces(self, text: str) -> tuple[Piece, ...]:
        """Returns the pieces of a line's text, left to right."""
        row = self.row(text)
        first, *rest = _SIGN.split(self.rule.marked(row) if self.rule else row)
        pieces = [Piece(first)] if first else []
        kind: Kind = ""
        for sign, run in zip(rest[::2], rest[1::2], strict=True):
            kind = _KINDS[sign] if sign != NEXT else "" if kind == "name" else kind
            if run:
                pieces.append(_piece(run, kind))
        return tuple(pieces)


_piece = lru_cache(maxsize=4096)(Piece)  # few texts differ, and names


class LazyLines(Sequence[Line]):
    """Lines of a known number, all made when one is indexed; iterating many keeps none.

    Args:
        count: Number of lines.
        make: Makes the lines of a listing in order.
        start: Index of the first of these lines among those that `make` gives.
        form: How its `WrittenLine` lines are read.
    """

    def __init__(
        self,
        count: int,
        make: Callable[[], Iterable[Line | WrittenLine]],
        start: int = 0,
        form: LineForm | None = None,
    ) -> None:
        self._count = count
        self._make = make
        self._start, self._end = start, start + count
        self._form = form
        self._kept: list[Line | WrittenLine] = []

    @cached_property
    def _lines(self) -> tuple[Line, ...]:
        return tuple(map(_line, self._made(), repeat(self._form)))

    def _made(self) -> Iterable[Line | WrittenLine]:
        """Returns the lines as they are made; few are kept, as a page has both their forms."""
        if self._count <= _FEW:
            self._kept = self._kept or [*islice(self._make(), self._start, self._end)]
            return self._kept
        return islice(self._make(), self._start, self._end)

    @property
    def rule(self) -> Rule | None:
        """What finds the kinds of words that `rows` do not mark; None where they mark all."""
        return self._form.rule if self._form else None

    def rows(self, count: int) -> Iterator[Row]:
        """Returns the first rows."""
        if self._form is None:
            return map(row_of, islice(self, count))
        return map(_row, islice(self._made(), count), repeat(self._form))

    def __iter__(self) -> Iterator[Line]:
        if self._count <= _FEW or "_lines" in vars(self):
            return iter(self._lines)
        return map(_line, self._made(), repeat(self._form))

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> Line: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Line, ...]: ...
    def __getitem__(self, place: int | slice) -> Line | tuple[Line, ...]:
        return self._lines[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(self._count)


def ops(lines: Sequence[Line]) -> Iterator[str]:
    """Returns the operations of lines, by the rule alone where there is one; "" for none."""
    if isinstance(lines, LazyLines) and (rule := lines.rule):
        return (rule.op(row) for row, *_ in lines.rows(len(lines)))
    return (piece.text for line in lines for piece in line.pieces if piece.kind == "op")


def _line(line: Line | WrittenLine, form: LineForm | None) -> Line:
    if isinstance(line, Line) or form is None:
        assert isinstance(line, Line)
        return line
    return Line(form.pieces(line.text), line.id, line.indent, line.line, line.folds)


def _row(line: Line | WrittenLine, form: LineForm) -> Row:
    if isinstance(line, Line):
        return row_of(line)
    text = form.row(line.text)
    named = text.startswith(NAME, len(ROOT) if text.startswith(ROOT) else 0)
    id = FIRST_WORD if named and " " not in line.id else visible(line.id)
    return "  " * line.indent + text, id or 0, line.line


def head_first(lines: Iterable[Line | WrittenLine], head: int) -> Iterator[Line | WrittenLine]:
    """Yields `head` lines that no other folds, then those that they fold, then the rest.

    A page without scripts has the first, so that it shows the program and not its plumbing.
    """
    every, folded = iter(lines), list[Line | WrittenLine]()
    for line in islice(every, head):
        yield line
        folded += islice(every, line.folds)
    yield from folded
    yield from every


def listed(
    stage: str,
    total: int,
    head: int,
    lines: Callable[[], Iterable[Line | WrittenLine]],
    note: str = "",
    form: LineForm | None = None,
) -> Listing:
    """Returns the listing of a program, whose lines beyond the first are made on first use.

    Args:
        stage: The stage whose ids the lines carry.
        total: Number of lines.
        head: Number of lines in the page, which no other folds.
        lines: Makes the lines in order.
        note: See `Listing`.
        form: How its `WrittenLine` lines are read.
    """
    more = LazyLines(total - head, lambda: head_first(lines(), head), head, form)
    first = (_line(line, form) for line in islice(head_first(lines(), head), head))
    return Listing(stage, tuple(first), note, more or ())


def row_of(line: Line) -> Row:
    """The row of a line."""
    if line.folds:
        return marked(line), -line.folds, line.line
    named = line.id and (FIRST_WORD if begins_with_id(line) else visible(line.id))
    return marked(line), named or 0, line.line
