"""The view of `jaxlens.explain`: the failing line, its values, remedies."""

from collections.abc import Iterator

from jaxlens.questions.failure.facts import Failure
from jaxlens.questions.failure.report import advice, again, operands, origin, where, why
from jaxlens.render.document import Block, Code, Document, Findings
from jaxlens.report import Finding, Trust


def document(failure: Failure) -> Document:
    """Returns the document of a tracing failure."""
    traced = f" while tracing {failure.name}" if failure.name else ""
    line = f", at {where(failure)}" if failure.place else ""
    # Where no cause is known the message stands for it: the exception may not be in sight.
    said = failure.error if failure.reason else f"{failure.error}: {failure.message}"
    first = f"{said}{traced}{line}"
    return Document("explain", first, tuple(_blocks(failure)))


def _blocks(failure: Failure) -> Iterator[Block]:
    came = origin(failure.value) if failure.value else ""
    texts = (why(failure), came, operands(failure))
    trust: Trust = "jax" if failure.reason and not failure.mistake else "traced"
    found = [Finding(" ".join(filter(None, texts)), trust)]
    found += [Finding(again(failure), "traced")] if failure.again else []
    yield Findings(tuple(found))
    for remedy in failure.remedies:
        if remedy.code:
            yield Code("text", remedy.code, title=advice(remedy))
        else:
            yield Findings((Finding(f"{advice(remedy)}.", "estimate"),))
