"""The view of the live arrays of a process."""

from jaxlens.questions.arrays.report import LiveArrayFacts, report
from jaxlens.render.document import Document
from jaxlens.report import amount, count
from jaxlens.views.report_blocks import report_blocks


def document(facts: LiveArrayFacts) -> Document:
    """Returns the document of one look."""
    size = amount(sum(array.bytes for array in facts.named))
    taken = f"live arrays: {count(len(facts.named), 'array')} with a name, {size}"
    return Document("arrays", taken, tuple(report_blocks(report(facts))))
