"""The view of `%%recompiles`: the reason for each function, then each call with its cache key."""

from collections.abc import Iterator

from jaxlens.ir.compile_log import CallEvent, CompileLog
from jaxlens.lenses.recompile.call_key import disk_table, key_table
from jaxlens.lenses.recompile.report import recompiles
from jaxlens.render.document import Block, Document, Fold, TableBlock
from jaxlens.views.report_blocks import report_blocks

_KEYS = 50  # maximum number of calls whose keys are in the output


def document(log: CompileLog, where: str = "") -> Document:
    """Returns the document of a compile log.

    Args:
        log: The compiles and calls that were recorded.
        where: "in this cell", or "".
    """
    return Document(
        "recompiles", _first(log), (*report_blocks(recompiles(log, where)), *_keys(log))
    )


def _first(log: CompileLog) -> str:
    """Returns the first line: the number of compiles."""
    made, operations = len(log.compiles), len(log.operations)
    texts = [f"{made:,} compile{'' if made == 1 else 's'}"]
    if operations:
        texts.append(f"{operations:,} of single operations")
    return " + ".join(texts) + (", still watching" if log.going else "")


def _keys(log: CompileLog) -> Iterator[Block]:
    """Yields a fold with the cache key of each call."""
    calls = [call for call in log.calls if call.parts and call.role == "user"]
    folds = tuple(Fold(_title(call), tuple(_tables(call))) for call in calls[:_KEYS])
    if folds:
        yield Fold("The key of each call", folds)


def _tables(call: CallEvent) -> Iterator[Block]:
    """Yields the table of a call's key, and of its program's key in the persistent cache."""
    yield TableBlock(key_table(call.parts))
    step = call.step("compile")
    if step is not None and step.disk is not None:
        yield TableBlock(disk_table(step.disk))


def _title(call: CallEvent) -> str:
    at = f" at {call.line.file}:{call.line.line}" if call.line else ""
    return f"{call.number}: {call.function}{at}"
