"""Glossary entries of the words that a document shows, for `glossary/card.js`.

Only those are embedded in an output. Words are looked up as they are displayed, so the viewer
needs no rules of its own.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from jaxlens.ir.glossary import Entry, Kind, address, entry, pass_entry
from jaxlens.ir.glossary import words as all_words
from jaxlens.ir.lessons import reference
from jaxlens.render.control_chars import visible
from jaxlens.render.document import (
    Diff,
    Document,
    Line,
    Listing,
    PassSteps,
    Piece,
    SourcePane,
    TableBlock,
    walk,
)
from jaxlens.render.html.lazy_lines import ops
from jaxlens.render.html.marks import attr, diff_sides, escaped
from jaxlens.report import Table

_MOST = 1000  # lines of a program that are scanned; of longer ones all words are embedded
_EXPERTS = 6_000  # characters of texts for experts; `%glossary WORD` has all
_OFTEN = 3  # values of one attribute that are scanned
_KINDS: dict[str, Kind] = {
    "jaxpr": "primitive",
    "stablehlo": "op",
    "hlo": "instruction",
    "optimized": "instruction",
    "passes": "instruction",
    "llvm": "llvm",
    "asm": "asm",
}
_IDS = re.compile(r"(?:(e)|(s))\d+")
_ATTRIBUTES = frozenset({"primitive", "op", "instruction"})
# Names of values, computations, types, attributes and targets, words such as ROOT; a layout {1,0}.
_NAME = re.compile(r"[A-Za-z_][\w.$-]*+|\{\d[^}]*\}")
WORD = re.compile(r"[A-Za-z_][\w-]*+", re.ASCII)  # parts of all of these
_START = "start of "  # before the name of a pipeline, as `program/passes.py` writes it
_LAYOUT = re.compile(r"\{\d[^}]*\}")


@dataclass(slots=True)
class _Words:
    """Words by kind, and how often each text with attributes was scanned.

    Attributes:
        brief: Words that may occur in lines that were not scanned; they go without the texts for
            experts.
    """

    by_kind: dict[Kind, dict[str, None]] = field(default_factory=dict)
    seen: Counter[tuple[str, str]] = field(default_factory=Counter)
    texts: set[tuple[Kind, str, Piece]] = field(default_factory=set)
    brief: set[tuple[Kind, str]] = field(default_factory=set)

    def add_all(self, kind: Kind) -> None:
        """Every word of a kind, every attribute, and the words that any program may have."""
        listed: tuple[Kind, ...] = (kind, "attribute", "word")
        for kind in listed:
            known = self.by_kind.setdefault(kind, {})
            self.brief |= {(kind, word) for word in all_words(kind) if word not in known}
            known.update(dict.fromkeys(all_words(kind)))

    def add(self, kind: Kind, word: str) -> None:
        self.by_kind.setdefault(kind, {})[word] = None
        self.brief.discard((kind, word))


def help_data(document: Document, beyond: set[str] | None = None) -> dict[str, Any]:
    """The glossary entries of the words that a document shows.

    Args:
        document: What is shown.
        beyond: Every `WORD` of the lines that are not scanned; None where they are not known.

    Returns:
        By kind and word, as displayed but for quotes: the sentence, the place of its page in
        `pages` (-1 for none), its lesson (0 for none) and the places of its texts for experts in
        `texts`, as far as those have room, operations first. An attribute that means something of
        its own at its operation stands under "operation.attribute". `pages`: name and address of
        each page. `lessons`: how each lesson is called. Empty where the glossary knows none of
        the words.
    """
    words = _Words()
    for step in walk(document.blocks):
        if step.move != "leave":
            _look(step.part, words)
    pages: dict[str, int] = {}
    texts: dict[str, int] = {}
    lessons: dict[int, str] = {}
    entries: dict[str, Any] = {}

    def room(text: str) -> bool:
        return text in texts or sum(map(len, texts)) + len(text) <= _EXPERTS

    for kind, names in sorted(words.by_kind.items(), key=lambda item: item[0] not in _ATTRIBUTES):
        said = (
            word
            for word in names
            if beyond is None
            or (kind, word) not in words.brief
            or beyond.issuperset(WORD.findall(word))
        )
        for word, known in _entries(kind, said):
            page = pages.setdefault(known.link, len(pages)) if known.link else -1
            expert = () if (kind, word) in words.brief else known.expert
            places = [texts.setdefault(text, len(texts)) for text in expert if room(text)]
            if known.lesson and known.lesson not in lessons:
                lessons[known.lesson] = reference(known.lesson)[0]
            told = [known.sentence, page, known.lesson, *places]
            entries.setdefault(kind, {})[visible(word.strip('"'))] = told
    if not entries:
        return {}
    named = [[name, address(name)] for name in pages]
    return {**entries, "pages": named, "texts": list(texts), "lessons": lessons}


def lesson_links(data: dict[str, Any]) -> str:
    """Links to the lessons that `help_data` names, out of sight, for cards to show.

    They are in the HTML, and not made by the viewer, because JupyterLab makes links to notebooks
    beside this one open there when it inserts an output. Untrusted notebooks show none.
    """
    links = []
    for number in sorted(data.get("lessons", ())):
        name, there = reference(number)
        if there:
            links.append(f"<a data-lesson={number}{attr('href', there)}>{escaped(name)}</a>")
    return f"<p class=lessons hidden=1>{''.join(links)}</p>" if links else ""


def _look(block: object, words: _Words) -> None:
    if isinstance(block, Listing):
        _listing(block, words)
    elif isinstance(block, SourcePane):
        under = chain.from_iterable(line.under for line in block.lines)
        _lines(((_by_id(line.id), line) for line in islice(under, _MOST)), words)
    elif isinstance(block, Diff):
        _lines(((_by_id(line.id), line) for line in diff_sides(block)[:_MOST]), words)
    elif isinstance(block, PassSteps):
        lines = {id(row.line): row.line for step in block.steps for row in step.rows or ()}
        if len(lines) > _MOST:  # most lines are in many steps, as one object
            words.add_all("instruction")
        _lines((("instruction", line) for line in islice(lines.values(), _MOST)), words)
        for step in block.steps:
            words.add("pass", step.name.removeprefix(_START))
    elif isinstance(block, TableBlock):
        _table(block.table, words)


def _table(table: Table, words: _Words) -> None:
    """What stands in a cell of its own, such as the kind of a kernel."""
    for row in islice(table.rows, _MOST):
        for cell in row:
            words.add("word", cell.text)


def _listing(block: Listing, words: _Words) -> None:
    """Of a long program, whose lines would have to be made, all words of its kind."""
    kind = _KINDS.get(block.stage.partition(" ")[0])  # "optimized on cpu"
    if kind is None:
        return
    if kind not in _ATTRIBUTES:
        for op in dict.fromkeys(chain(ops(block.lines), ops(block.more))):
            words.add(_machine(kind, op), op)
        return
    shown: Iterable[Line] = islice(block.lines, _MOST)
    if len(block.lines) + len(block.more) <= _MOST:
        shown = chain(shown, block.more)
    else:
        words.add_all(kind)
    _lines(((kind, line) for line in shown), words)


def _by_id(id: str) -> Kind:
    """The kind of the operations of a line under a source line, by the id of its node."""
    match = _IDS.fullmatch(id)
    return "instruction" if not match else "primitive" if match[1] else "op"


def _lines(lines: Iterable[tuple[Kind, Line]], words: _Words) -> None:
    for kind, line in lines:
        op = ""
        for piece in line.pieces:
            if piece.kind == "op":
                op = piece.text
                words.add(_machine(kind, op), op)
            elif (kind, op, piece) not in words.texts:
                words.texts.add((kind, op, piece))
                _piece(kind, op, piece, words)


def _machine(kind: Kind, op: str) -> Kind:
    """PTX instructions have types behind dots, those of CPUs have no dots."""
    return "ptx" if kind == "asm" and "." in op else kind


def _piece(kind: Kind, op: str, piece: Piece, words: _Words) -> None:
    """What stands beside an operation: each name in it is looked up as all that it may be."""
    key = piece.text[: piece.text.find("=")]
    if words.seen[op, key] > _OFTEN:
        return
    words.seen[op, key] += "=" in piece.text
    is_value = kind == "primitive" and piece.kind == "name"  # a, b, ..., in
    # Values of a jaxpr's equation come before its primitive.
    has_attributes = kind in _ATTRIBUTES and (op or kind != "primitive")
    for name in _NAME.findall(piece.text):
        if not is_value:
            words.add("word", "layout" if _LAYOUT.fullmatch(name) else name)
        if has_attributes and piece.kind not in ("name", "type"):
            words.add("attribute", f"{op}.{name}" if op else name)
            words.add("target", name)
            if piece.kind == "comment":  # the only instruction of a fusion
                words.add(kind, name)


def _entries(kind: Kind, words: Iterable[str]) -> Iterator[tuple[str, Entry]]:
    """Words and what there is to say; an attribute of an operation alone only where it differs."""
    for word in words:
        known = pass_entry(word) if kind == "pass" else entry(kind, word)
        if known is None:
            continue
        op, _, name = word.rpartition(".") if kind == "attribute" else ("", "", word)
        if kind == "attribute" and entry(kind, name) != known:
            name = f"{op}.{name}"
        yield name, known
