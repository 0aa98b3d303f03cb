"""The view of `jaxlens.explain`: the failing line, the traced value, remedies, prior equations."""

from collections.abc import Iterator

from jaxlens.ir.failure import Failure, Remedy, advice, where
from jaxlens.lenses.tracing.failure import findings, tables
from jaxlens.render.document import Block, Code, Document, Findings, TableBlock
from jaxlens.report import Finding


def document(found: Failure) -> Document:
    """Returns the document of a tracing failure."""
    traced = f" while tracing {found.name}" if found.name else ""
    line = f", at {where(found)}" if found.place else ""
    first = f"{found.error}{traced}{line}"
    return Document("explain", first, tuple(_blocks(found)))


def _blocks(found: Failure) -> Iterator[Block]:
    yield Findings(tuple(findings(found)))
    yield from map(_remedy, found.remedies)
    yield from map(TableBlock, tables(found))


def _remedy(remedy: Remedy) -> Block:
    if remedy.code:
        return Code("text", remedy.code, title=advice(remedy))
    return Findings((Finding(f"{advice(remedy)}.", "estimate"),))
