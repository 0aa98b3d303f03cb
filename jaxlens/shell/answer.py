"""An answer as JSON, of the form that `answer.schema.json` describes."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from json import dumps
from traceback import extract_tb
from typing import Any

from jaxlens.captures import Capture
from jaxlens.errors import LensError
from jaxlens.ir.graph import Node
from jaxlens.ir.spans import describe
from jaxlens.render.to_json import plain
from jaxlens.report import Cell, Finding, Table
from jaxlens.shell.questions import Asked
from jaxlens.tracebacks import below, user_frames
from jaxlens.views.view import View

SCHEMA = 1
"""The version of the form; a field that comes does not change it, one that goes does."""
_EQUATION_OR_OP = re.compile(r"[es]\d+")


def answered(asked: Asked, view: View[Any]) -> str:
    """Returns an answer as a line of JSON."""
    program = _Places(view.capture)
    sentences = [_sentence(finding, program) for finding in view.findings]
    lines = {line.rpartition(":")[0] for sentence in sentences for line in sentence["lines"]}
    ids = dict.fromkeys(id for finding in view.findings for id in finding.ids)
    return _line(
        question=asked.name,
        asks=asked.sentence,
        sentences=sentences,
        program=view.document.taken,
        deviations=view.document.deviations,
        facts=_figures(view.facts),
        tables=[_table(table) for table in view.tables],
        nodes={id: found for id in ids if (found := program.node(id))},
        files={name: path for name, path in program.files.items() if name in lines},
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


def _sentence(finding: Finding, program: "_Places") -> dict[str, Any]:
    ids = dict.fromkeys(finding.ids)
    lines = [*program.named(finding.measured), *(line for id in ids for line in program.lines(id))]
    return {
        "text": finding.measured,
        "trust": finding.trust,
        "ids": [*ids],
        "lines": [*dict.fromkeys(lines)],
    }


def _table(table: Table) -> dict[str, Any]:
    return {
        "title": table.title,
        "columns": table.columns,
        "rows": [[_cell(cell) for cell in row] for row in table.rows],
        "note": table.note,
        "stage": table.stage,
    }


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


class _Places:
    """The nodes, lines and files of a program; none without a program.

    Attributes:
        files: Paths of the files that lines are of, by their short names.
    """

    def __init__(self, capture: Capture | None) -> None:
        self._capture = capture
        self._nodes: dict[str, Mapping[str, Node]] = {}
        self.files: dict[str, str] = {}
        with suppress(LensError):
            sources = capture.sources if capture is not None else {}
            self.files = {source.file: key for key, source in sources.items()}

    def named(self, text: str) -> Iterable[str]:
        """Returns the lines that a text names, such as "train.py:12"."""
        names = "|".join([*map(re.escape, self.files), r"[\w./-]+\.py"])
        return re.findall(rf"(?<!\w)(?:{names}):\d+", text)

    def node(self, id: str) -> dict[str, Any] | None:
        """Returns where a node is, and what; None where no stage has it."""
        if (stage := self._stage(id)) is None:
            return None
        node = self._nodes[stage][id]
        about = {"stage": stage, "op": node.opcode, "type": str(node.type)}
        return about | {"lines": self.lines(id)}

    def lines(self, id: str) -> tuple[str, ...]:
        """Returns the lines that a node came from."""
        if self._capture is not None and (stage := self._stage(id)):
            with suppress(LensError):
                return self._capture.links.back(id, "source", at=stage)
        return ()

    def _stage(self, id: str) -> str | None:
        """Returns the stage that has a node."""
        of_jax = {"e": ("jaxpr",), "s": ("stablehlo",)} if _EQUATION_OR_OP.fullmatch(id) else {}
        for stage in of_jax.get(id[:1], ("optimized", "hlo")):
            if stage not in self._nodes and self._capture is not None:
                self._nodes[stage] = {}
                with suppress(LensError):
                    nodes = self._capture.stage(stage).module.nodes()
                    self._nodes[stage] = {node.id: node for node in nodes}
            if id in self._nodes.get(stage, ()):
                return stage
        return None
