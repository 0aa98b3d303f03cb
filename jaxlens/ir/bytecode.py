"""Bytecode of a Python function, as data: what the module `dis` says of it.

Names and numbers of instructions differ between versions of Python.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BytecodeInstruction:
    """One instruction of Python's virtual machine.

    Attributes:
        offset: Its position in the bytecode, in bytes.
        name: Its name ("BINARY_OP").
        argument: Its argument as `dis` shows it ("+", "x", "to 24"); "" for none.
        line: The line that it was compiled from.
        end_line: The last line of the expression that it was compiled from.
        column: First column of that expression in bytes, from 0; -1 where unknown.
        end_column: Column after its last; -1 where unknown.
    """

    offset: int
    name: str
    argument: str
    line: int
    end_line: int = 0
    column: int = -1
    end_column: int = -1


@dataclass(frozen=True, slots=True)
class FunctionBytecode:
    """The bytecode of one function.

    Attributes:
        key: The file as Python knows it, the key of `Capture.sources`.
        file: The same file by its short name.
        function: Qualified name.
        instructions: In the order of the bytecode.
    """

    key: str
    file: str
    function: str
    instructions: tuple[BytecodeInstruction, ...]
