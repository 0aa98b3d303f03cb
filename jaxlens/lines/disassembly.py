"""Disassembles the functions that ran while JAX traced, by Python's own `dis`."""

import dis
from types import CodeType

from jaxlens.ir.facts import BytecodeInstruction, FunctionBytecode
from jaxlens.ir.spans import describe

_LONG = 60  # characters of a constant


def bytecode(code: CodeType) -> FunctionBytecode:
    """Returns the bytecode of a function as `dis.dis` shows it, without inline caches.

    An instruction without a line, such as one that copies the variables of a closure, is given to
    the line of the one before it.
    """
    line = code.co_firstlineno
    instructions = []
    for each in dis.get_instructions(code):
        place = each.positions
        line = (place.lineno if place else None) or line
        columns = (-1, -1)
        if place and place.col_offset is not None and place.end_col_offset is not None:
            columns = place.col_offset, place.end_col_offset
        last = (place.end_lineno if place else None) or line
        row = BytecodeInstruction(each.offset, each.opname, _argument(each), line, last, *columns)
        instructions.append(row)
    file = describe(code.co_filename).name
    return FunctionBytecode(code.co_filename, file, code.co_qualname, tuple(instructions))


def _argument(instruction: dis.Instruction) -> str:
    """Returns the argument without addresses and paths, which the text of a code object has."""
    if isinstance(instruction.argval, CodeType):
        return f"code of {instruction.argval.co_name}"
    if instruction.argval is None and instruction.argrepr == "":
        return ""
    text = instruction.argrepr or str(instruction.arg)
    return text if len(text) <= _LONG else f"{text[: _LONG - 3]}..."
