"""The views of cache keys: of one call (`jaxlens.key`), and of each compile (`%%recompiles`).

Under `%jaxlens on` each cell that compiles has one line, and `%explain` has the whole view.
"""

from collections.abc import Sequence
from dataclasses import replace

from jaxlens.ir.compile_log import CallEvent, CallKey, CompileLog, Cure
from jaxlens.program.call_key import disk_table, key_report, key_table
from jaxlens.program.recompile_causes import cures, tables
from jaxlens.questions.recompiles.after_cell import AfterCell, report, warnings
from jaxlens.questions.recompiles.brief import brief_html
from jaxlens.questions.recompiles.report import recompiles
from jaxlens.render.control_chars import visible
from jaxlens.render.document import Document, Findings, Fold, TableBlock
from jaxlens.report import Finding, count
from jaxlens.views.report_blocks import report_blocks

_KEYS = 50  # maximum number of calls whose keys are in the output


def document(log: CompileLog, where: str = "") -> Document:
    """Returns the document of a compile log: the reason for each function, then each call's key.

    Args:
        log: The compiles and calls that were recorded.
        where: "in this cell", or "".
    """
    operations = len(log.operations)
    parts = [count(len(log.compiles), "compile")]
    parts += [f"{operations:,} of single operations"] if operations else []
    first = " + ".join(parts) + (", still watching" if log.going else "")
    calls = [call for call in log.calls if call.parts and call.role == "user"]
    folds = tuple(map(_key_fold, calls[:_KEYS]))
    keys = (Fold("The key of each call", folds),) if folds else ()
    return Document("recompiles", first, (*report_blocks(recompiles(log, where)), *keys))


def _key_fold(call: CallEvent) -> Fold:
    """Returns the tables of a call's key, and of its program's key in the persistent cache."""
    at = f" at {call.line.file}:{call.line.line}" if call.line else ""
    tables = [key_table(call.parts)]
    step = call.step("compile")
    if step is not None and step.disk is not None:
        tables.append(disk_table(step.disk))
    return Fold(f"{call.number}: {call.function}{at}", tuple(map(TableBlock, tables)))


def key_document(call: CallKey) -> Document:
    """Returns the document of a call's key: hit or miss, what is new, and the key part by part."""
    inputs = [f"{part.name} {part.text}" for part in call.parts if part.kind == "input"]
    blocks = report_blocks(key_report(call))
    if call.rest:
        rest = (TableBlock(key_table(call.rest)),)
        blocks.append(Fold("Options and settings that are as always", rest))
    return Document("key", f"{call.function}({', '.join(inputs)})", tuple(blocks))


def cell_text(after: AfterCell, times: bool) -> str:
    """Returns what is said unasked after a cell: a line if it compiled, then warnings.

    Args:
        after: What the cell compiled.
        times: Whether figures that change from run to run are written.
    """
    lines = [visible(one.measured if times else one.text) for one in report(after).findings]
    start = int(bool(after.compiles))
    return "\n".join([*lines[:start], *(f"Warning: {text}" for text in lines[start:])])


def cell_html(after: AfterCell) -> str:
    """Returns the same as HTML; a click on the line opens the cures and the tables of its calls."""
    findings = report(after).findings
    if not after.compiles:
        return brief_html(None, findings, ())
    blocks = tuple(map(TableBlock, tables(after.log)))
    return brief_html(findings[0], findings[1:], blocks, tuple(cures(after.compiles)))


def of_earlier(shown: Document, since: int) -> Document:
    """Returns the answer about a cell, with the note that it is not the last one.

    Args:
        shown: The answer.
        since: Number of cells that ran after it.
    """
    last = "the last cell" if since == 1 else f"the last {since:,} cells"
    text = f"This is about an earlier cell: there is nothing to explain in {last}."
    return replace(shown, blocks=(Findings((Finding(text, "counted"),)), *shown.blocks))


def explained(answer: Document, after: AfterCell, ways: Sequence[Cure]) -> Document:
    """Returns the full answer about a cell, below the warnings.

    Args:
        answer: The document of the cell's compile log.
        after: What the cell compiled.
        ways: What would avoid that XLA replicates values.
    """
    found = warnings(replace(after, growth=None), explained=True)
    cures = tuple(Finding(f"Cure: {way.text} ({way.tried}).", "compared") for way in ways)
    first = (Findings((*found, *cures)),) if found else ()
    return replace(answer, blocks=(*first, *answer.blocks))
