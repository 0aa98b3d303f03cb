"""The view of `jaxlens.key`: hit or miss, what is new, and the cache key part by part."""

from jaxlens.ir.compile_log import CallKey
from jaxlens.lenses.recompile.call_key import key_report, key_table
from jaxlens.render.document import Document, Fold, TableBlock
from jaxlens.views.report_blocks import report_blocks


def document(call: CallKey) -> Document:
    """Returns the document of a call's cache key."""
    inputs = [f"{part.name} {part.text}" for part in call.parts if part.kind == "input"]
    taken = f"{call.function}({', '.join(inputs)})"
    rest = (
        (Fold("Options and settings that are as always", (TableBlock(key_table(call.rest)),)),)
        if call.rest
        else ()
    )
    return Document("key", taken, (*report_blocks(key_report(call)), *rest))
