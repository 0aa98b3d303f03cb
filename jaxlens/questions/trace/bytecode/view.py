"""The view of `%%jaxpr --bytecode`: each line's instructions beside the equations it recorded."""

from collections.abc import Mapping
from itertools import zip_longest

from jaxlens.ir.facts import BytecodeInstruction
from jaxlens.questions.trace.bytecode.facts import Bytecode, BytecodeFunction, BytecodeLine
from jaxlens.questions.trace.bytecode.report import findings, times
from jaxlens.render.document import (
    Block,
    Diff,
    DiffGroup,
    DiffRow,
    Findings,
    Line,
    Piece,
    Tab,
    Tabs,
)
from jaxlens.report import count
from jaxlens.views.listings.panes import equation_lines, jaxpr_tab

_PLAIN = ("LOAD_CONST", "STORE_", "JUMP_", "POP_")  # their text says nothing of what they do
_SHOWN = 12  # equations of a line, where it has fewer instructions


def blocks(bytecode: Bytecode, full: bool = False) -> list[Block]:
    """Returns findings, bytecode beside equations line by line, and the jaxpr."""
    lines = equation_lines(bytecode.subject())
    sides = tuple(_function(function, lines, full) for function in bytecode.functions)
    help = "Python's instructions of each line, and the equations that were recorded while it ran."
    tabs = (
        Tab("Bytecode", sides, True, help, "bytecode"),
        jaxpr_tab(bytecode.subject(), full, lines),
    )
    shown: Block = Tabs(tabs if sides else tabs[1:])
    return [Findings(tuple(findings(bytecode))), shown]


def _function(function: BytecodeFunction, equations: Mapping[str, Line], full: bool) -> Diff:
    groups = tuple(
        DiffGroup(_title(line), tuple(_rows(line, equations, full))) for line in function.lines
    )
    return Diff(f"bytecode of {function.name}", "equations recorded", groups)


def _title(line: BytecodeLine) -> str:
    verb = "called" if line.enters else "ran"
    ran = f"{verb} {times(line.ran)}" if line.ran else "did not run"
    instructions = count(len(line.instructions), "instruction")
    inside = f", {line.inside:,} in calls" if line.inside else ""
    equations = count(len(line.equations), "equation")
    return f"{line.line}  {line.text}  ({ran}, {instructions}, {equations}{inside})"


def _rows(line: BytecodeLine, equations: Mapping[str, Line], full: bool) -> list[DiffRow]:
    """Returns the rows of a line. All its instructions stand for all its equations."""
    ids = " ".join(line.equations)
    wide = max(len(row.name) for row in line.instructions)
    left = [
        Line(
            (
                Piece(f"{row.offset:<4} ", "attr"),
                Piece(row.name, "op"),
                Piece(f"{' ' * (wide - len(row.name))} {row.argument}"),
                Piece(_remark(row, piece, line.text), "attr"),
            ),
            ids,
            0,
            line.line,
        )
        for row, piece in zip(line.instructions, line.pieces, strict=True)
    ]
    most = len(line.equations) if full else max(_SHOWN, len(left))
    right = [
        Line(shown.pieces, shown.id, 0, line.line)
        for id in line.equations[:most]
        if (shown := equations.get(id))
    ]
    if len(line.equations) > most:
        rest = f"... {len(line.equations) - most:,} more: full=True shows all"
        right[-1] = Line((Piece(rest, "comment"),))
    return [DiffRow(a, b, "") for a, b in zip_longest(left, right)]


def _remark(row: BytecodeInstruction, piece: str, text: str) -> str:
    """Returns the text that an instruction was compiled from, where it says more than the rest."""
    said = row.argument.endswith(piece) or piece == text
    return "" if said or row.name.startswith(_PLAIN) else f"  # {piece}"
