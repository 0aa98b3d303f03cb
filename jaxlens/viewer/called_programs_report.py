"""The view of a cell whose last line is not a call: the programs that the cell called."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jaxlens.ir.cell_calls import CalledProgram
from jaxlens.program.sentences import listed
from jaxlens.render.document import Block, Document, Findings, TableBlock
from jaxlens.report import Finding, NumberColumn, Table, count, table

_ROWS = 20
# The cache verdict is then from after the run: the cell's own call may have compiled the program.
_AFTER = "It is looked at after the run, when JAX's caches may hold it already."


@dataclass(frozen=True, slots=True)
class Row:
    """A program that a cell called.

    Attributes:
        program: The call.
        inputs: Its input arrays, as text.
        line: A magic that shows it: "%jaxpr step(state, batch)"; "" for none.
    """

    program: CalledProgram
    inputs: str
    line: str


def document(why: Sequence[Block], rows: Sequence[Row], shown: Document) -> Document:
    """Returns the view of a program that the cell called, with a table of the others.

    Args:
        why: Blocks on the cell's last line.
        rows: The programs; the first is the one shown.
        shown: The view of the first program.
    """
    first, rest = rows[0].program, rows[1:]
    most = f", the largest of the {len(rows)} programs that it called" if rest else ""
    kind = "" if first.own else "an operation of JAX's own, "
    sentence = f"This is {kind}{first.name} ({_times(first)}){most}. {_AFTER}"
    finding = Findings((Finding(f"The cell ran as written. {sentence}", "counted"),))
    others = [TableBlock(_table(rest))] if rest else []
    return replace(_ran(shown), blocks=(*why, finding, *others, *shown.blocks))


def after_run(shown: Document, verb: str) -> Document:
    """Returns a view that says first that it was made after the cell's run.

    Args:
        shown: The view.
        verb: The verb that made it; "compile" says what JAX's caches hold.
    """
    note = [Findings((Finding(_AFTER, "counted"),))] if verb == "compile" else []
    return replace(_ran(shown), blocks=(*note, *shown.blocks))


def _ran(shown: Document) -> Document:
    return replace(shown, taken=f"The cell ran, and called {shown.taken}")


def not_looked_at(looked_at: str, others: Sequence[str], shown: Document) -> Document:
    """Returns a view with the note that its cell makes other calls.

    Args:
        looked_at: The text of the call that the view is about; "" for an expression.
        others: The texts of the other calls.
        shown: The view.
    """
    only = f"`{looked_at}`" if looked_at else "the last line's expression"
    calls = listed([f"`{call}`" for call in others])
    sentence = (
        f"Only {only} is looked at. Also called in this cell, and not looked at: {calls}. Make "
        "the calls in one function to look at them together."
    )
    return replace(shown, blocks=(Findings((Finding(sentence, "counted"),)), *shown.blocks))


def nothing(verb: str, why: Sequence[Block], sentence: str) -> Document:
    """Returns a document of one line for a cell without a program to show."""
    return Document(verb, sentence, tuple(why))


def _table(rows: Sequence[Row]) -> Table:
    return table(
        "Other programs that the cell called",
        (
            "program",
            NumberColumn("calls", bar="calls"),
            "inputs",
            "the line that shows it, or where it was called",
        ),
        (
            (row.program.name, row.program.calls, row.inputs, row.line or row.program.site.place)
            for row in rows
        ),
        most=_ROWS,
        rest=" are not listed",
    )


def _times(program: CalledProgram) -> str:
    place = program.site.place
    if program.calls == 1:
        return f"called once at {place}" if place else "called once"
    return f"called {count(program.calls, 'time')}" + (f", first at {place}" if place else "")
