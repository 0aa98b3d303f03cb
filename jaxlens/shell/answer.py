"""An answer as JSON, of the form that `answer.schema.json` describes."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from json import dumps
from traceback import extract_tb
from typing import Any

from jaxlens.captures import Capture
from jaxlens.errors import LensError
from jaxlens.ir.spans import describe
from jaxlens.render.to_json import plain
from jaxlens.report import Cell, Finding, Table
from jaxlens.shell.questions import Asked
from jaxlens.tracebacks import below, user_frames
from jaxlens.views.view import View

SCHEMA = 1
"""The version of the form; a field that comes does not change it, one that goes does."""


def answered(asked: Asked, view: View[Any]) -> str:
    """Returns an answer as a line of JSON."""
    capture, files, nodes = view.capture, dict[str, str](), dict[str, Any]()
    if capture is not None:
        with suppress(LensError):
            files = {source.file: key for key, source in capture.sources.items()}
        ids = dict.fromkeys(id for finding in view.findings for id in finding.ids)
        nodes = {id: found for id in ids if (found := _node(capture, id))}
    sentences = [_sentence(finding, files, nodes) for finding in view.findings]
    lines = {line.rpartition(":")[0] for sentence in sentences for line in sentence["lines"]}
    return _line(
        question=asked.name,
        asks=asked.sentence,
        sentences=sentences,
        program=view.document.taken,
        deviations=view.document.deviations,
        facts=_figures(view.facts),
        tables=[_table(table) for table in view.tables],
        nodes=nodes,
        files={name: path for name, path in files.items() if name in lines},
        versions=view.document.versions,
    )


def failed(question: str, error: Exception) -> str:
    """Returns an error as a line of JSON: of the shell's, or of the user's code with its line."""
    said = [str(error), *getattr(error, "__notes__", ())]
    about = {"kind": type(error).__name__, "message": "\n".join(said), "lines": _lines(error)}
    return _line(question=question, error=about)


def _line(**fields: Any) -> str:
    return dumps({"schema": SCHEMA, **plain(fields)}, allow_nan=False)


def _lines(error: Exception) -> list[str]:
    """Returns the line of the user's that raised, in a list; none for an error of jaxlens's."""
    if isinstance(error, LensError):
        return []
    if isinstance(error, SyntaxError) and error.filename:
        return [f"{error.filename}:{error.lineno}"]
    frames = extract_tb(user_frames(below(error.__traceback__)))
    own = [frame for frame in frames if not describe(frame.filename).library]
    return [f"{frame.filename}:{frame.lineno}" for frame in own[-1:]]


def _sentence(finding: Finding, files: Iterable[str], nodes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a sentence with the lines that it names, such as "train.py:12", and its nodes'."""
    ids = dict.fromkeys(finding.ids)
    names = "|".join([*map(re.escape, files), r"[\w./-]+\.py"])
    lines = re.findall(rf"(?<!\w)(?:{names}):\d+", finding.measured)
    lines += [line for id in ids if id in nodes for line in nodes[id]["lines"]]
    return {
        "text": finding.measured,
        "trust": finding.trust,
        "ids": [*ids],
        "lines": [*dict.fromkeys(lines)],
    }


def _table(table: Table) -> dict[str, Any]:
    fields = {name: getattr(table, name) for name in ("title", "columns", "note", "stage")}
    return fields | {"rows": [[_cell(cell) for cell in row] for row in table.rows]}


def _cell(cell: Cell) -> dict[str, Any]:
    """Returns a cell's text, with what it has beside it."""
    value = {} if cell.value is None else {"value": cell.value}
    return {"text": cell.text, **value, **({"ids": cell.ids} if cell.ids else {})}


def _figures(facts: object) -> dict[str, Any]:
    """Returns the facts that are numbers, by the names that they have in Python."""
    found = {}
    for name in (name for name in dir(facts) if not name.startswith("_")):
        with suppress(LensError):
            value = getattr(facts, name)
            if isinstance(value, bool | int | float):
                found[name] = value
    return found


def _node(capture: Capture, id: str) -> dict[str, Any] | None:
    """Returns where a node is, what, and the lines that it came from; None where no stage has it.

    An instruction is looked for after optimisation first.
    """
    for latest in ("optimized", "hlo"):
        with suppress(LensError):
            stage, lines = capture.links.home(id, (latest,)), tuple[str, ...]()
            with suppress(LensError):
                lines = capture.links.back(id, "source", at=stage)
            node = next(node for node in capture.stage(stage).module.nodes() if node.id == id)
            return {"stage": stage, "op": node.opcode, "type": str(node.type), "lines": lines}
    return None
