"""The view of a cell whose last line is no call: the programs that the cell called."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jaxlens.ir.cell_calls import CalledProgram
from jaxlens.render.document import Block, Document, Findings, TableBlock
from jaxlens.report import Cell, Finding, Table, count

_ROWS = 20
# A cache verdict is then of after the run: the cell's own call may have been what compiled.
_AFTER = "It is looked at after the run, when JAX's caches may hold it already."


@dataclass(frozen=True, slots=True)
class Row:
    """A program that a cell called.

    Attributes:
        program: The call.
        inputs: Its arrays in words.
        line: What shows it: "%jaxpr step(state, batch)"; "" for nothing.
    """

    program: CalledProgram
    inputs: str
    line: str


def document(verb: str, why: Sequence[Block], rows: Sequence[Row], shown: Document) -> Document:
    """A program that the cell called, with the names of the others.

    Args:
        verb: The magic's name.
        why: What is to say of the last line.
        rows: The programs, the one that is shown first.
        shown: The view of that one.
    """
    first, others = rows[0].program, rows[1:]
    most = f", the largest of the {len(rows)} programs that it called" if others else ""
    kind = "" if first.own else "an operation of JAX's own, "
    where = f" ({_times(first)})"
    sentence = f"The cell ran as written. This is {kind}{first.name}{where}{most}. {_AFTER}"
    blocks: list[Block] = [*why, Findings((Finding(sentence, "counted"),))]
    if others:
        blocks.append(TableBlock(_table(others)))
    return replace(shown, blocks=(*blocks, *shown.blocks))


def after_run(shown: Document) -> Document:
    """The view of a call that the cell has made, which says so."""
    return replace(shown, blocks=(Findings((Finding(_AFTER, "counted"),)), *shown.blocks))


def nothing(verb: str, why: Sequence[Block], sentence: str) -> Document:
    """One line where no program can be shown."""
    return Document(verb, sentence, tuple(why))


def _table(rows: Sequence[Row]) -> Table:
    cells = tuple(
        (
            Cell(row.program.name),
            Cell(f"{row.program.calls:,}", row.program.calls),
            Cell(row.inputs),
            Cell(row.line or row.program.site.place),
        )
        for row in rows[:_ROWS]
    )
    left = len(rows) - _ROWS
    note = f"{left} more are not listed" if left > 0 else ""
    return Table(
        "Other programs that the cell called",
        ("program", "calls", "inputs", "the line that shows it, or where it was called"),
        cells,
        note,
        right=(1,),
    )


def _times(program: CalledProgram) -> str:
    if program.calls == 1:
        return f"called once at {program.site.place}" if program.site.place else "called once"
    first = f", first at {program.site.place}" if program.site.place else ""
    return f"called {count(program.calls, 'time')}{first}"
