"""The views of cache keys: of one call (`jaxlens.key`), and of each compile (`%%recompiles`)."""

from jaxlens.ir.compile_log import CallEvent, CallKey, CompileLog
from jaxlens.program.call_key import key_report, key_table
from jaxlens.questions.recompiles.report import recompiles
from jaxlens.render.document import Document, Fold, TableBlock
from jaxlens.report import count
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
    at = f" at {call.line.file}:{call.line.line}" if call.line else ""
    return Fold(f"{call.number}: {call.function}{at}", (TableBlock(key_table(call.parts)),))


def key_document(call: CallKey) -> Document:
    """Returns the document of a call's key: hit or miss, what is new, and the key part by part."""
    inputs = [f"{part.name} {part.text}" for part in call.parts if part.kind == "input"]
    shown = tuple(report_blocks(key_report(call)))
    return Document("key", f"{call.function}({', '.join(inputs)})", shown)
