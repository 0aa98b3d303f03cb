"""What `jaxlens.explain` shows: the failing line, the traced value, the cures, what ran before."""

from collections.abc import Iterator

from jaxlens.ir.failure import Failure, Remedy
from jaxlens.ir.failure_words import advice
from jaxlens.lenses.failure import findings, tables
from jaxlens.lenses.report import Finding
from jaxlens.render.document import Block, Code, Document, Findings, TableBlock


def document(found: Failure) -> Document:
    """Builds the output."""
    first = f"{found.error} while tracing {found.name}" if found.name else found.error
    return Document("explain", first, tuple(_blocks(found)))


def _blocks(found: Failure) -> Iterator[Block]:
    if found.code:
        library = "a library's line, since none of yours took part"
        yield Code("text", found.code, title=found.place, note=library * found.library)
    yield Findings(tuple(findings(found)))
    yield from map(_remedy, found.remedies)
    yield from map(TableBlock, tables(found))


def _remedy(remedy: Remedy) -> Block:
    if remedy.code:
        return Code("text", remedy.code, title=advice(remedy))
    return Findings((Finding(f"{advice(remedy)}.", "estimate"),))
