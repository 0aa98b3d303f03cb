"""What the glossary says of a word, at both depths: `jaxlens.glossary` and `%glossary`."""

from collections.abc import Iterator

from jaxlens.errors import OptionError
from jaxlens.ir.glossary import KINDS, Entry, Kind, address, meanings, similar
from jaxlens.ir.lessons import reference
from jaxlens.render.document import Document, TableBlock
from jaxlens.report import Cell, CellLink, Table


def document(word: str) -> Document:
    """Returns a table for each meaning of a word.

    Raises:
        OptionError: The glossary has no such word.
    """
    known = meanings(word.strip())
    if not known:
        near = similar(word.strip())
        hint = f"; near to it: {', '.join(near)}" if near else ""
        raise OptionError(f"the glossary has no word {word.strip()!r}{hint}")
    tables = (TableBlock(_table(word.strip(), kind, entry)) for kind, entry in known.items())
    return Document("glossary", word.strip(), tuple(tables))


def _table(word: str, kind: Kind, entry: Entry) -> Table:
    title = f"{word}, {KINDS[kind][0]}" if KINDS[kind][0] else word
    return Table(title, ("", "meaning"), tuple((Cell(name), cell) for name, cell in _rows(entry)))


def _rows(entry: Entry) -> Iterator[tuple[str, Cell]]:
    yield "first", Cell(entry.sentence)
    for place, text in enumerate(entry.expert):
        yield "" if place else "more", Cell(text)
    if entry.lesson:
        name, there = reference(entry.lesson)
        yield "lesson", Cell(name, links=(CellLink(name, there),) if there else ())
    if entry.link:
        there = address(entry.link)
        yield "page", Cell(f"{entry.link}, {there}", links=(CellLink(there, there),))
