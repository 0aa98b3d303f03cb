"""Reads from the texts of many dumps only which op each instruction came from, and its opcode.

Few lines of a compile's dumps are distinct. Each distinct line and computation is read once, and
no graph is made of it. Text that is not laid out as XLA prints it is left to the caller.
"""

import re
from collections.abc import Set
from dataclasses import dataclass

from jaxlens.ir.hlo.frames import Frames, origin
from jaxlens.ir.hlo.lazy_module import BEFORE_NAME, HEADER
from jaxlens.ir.hlo.text import attributes, called, cut, instructions
from jaxlens.ir.stamps import stamps

_HEAD = re.compile(
    r"""\ +(?:ROOT\ )?%?[^\s=()"{}\[\],]+\ =\                                # name
    (?:[a-z][a-z0-9]*\[[^\]"\n]*\](?:\{[^{}"\n]*\})?                         # array
      |\((?:[^()"\n]++|\([^()"\n]*\))*\))\                                   # or tuple
    ([a-z][\w\-]*)\(                                                         # opcode""",
    re.VERBOSE,
)
_NAMED = re.compile(r'"([^"\\]*)"(?: stack_frame_id=\d{1,9})?\}')
_CALLS = re.compile(r", calls=%?([\w.\-]+)")
_NO_FRAMES = Frames(None)


@dataclass(frozen=True, slots=True)
class OpsOf:
    """The ops of one computation.

    Attributes:
        name: Its name.
        opcodes: Each op, with the opcode of an instruction that came from it.
        fused: The computations that its fusions call.
    """

    name: str
    opcodes: frozenset[tuple[str, str]]
    fused: frozenset[str]


class OpLines:
    """Reads the dumps of one compile."""

    def __init__(self, without: Set[str]) -> None:
        """Stores the opcodes that are left out."""
        self._lines = _Lines(without)
        self._computations: dict[str, OpsOf] = {}

    def read(self, text: str) -> list[OpsOf] | None:
        """Returns the ops of each computation; None if the text has an unusual form."""
        header = HEADER.search(text)
        *computations, end = text[header.start() if header else 0 :].split("\n}")
        if header is None or not computations or end.partition("\n")[2].strip():
            return None
        try:
            return [self._read(computation) for computation in computations]
        except _UnusualError:
            return None

    def _read(self, text: str) -> OpsOf:
        """Reads what stands between two closing braces: the end of a line, and a computation."""
        ops = self._computations.get(text)
        if ops is None:
            start = text.find("\n\n")  # before it: the end of the last computation
            first, *lines = text[start + 2 if start >= 0 else 0 :].split("\n")
            header = HEADER.fullmatch(first)
            if header is None:
                raise _UnusualError
            read = [self._lines[line] for line in lines]
            opcodes = frozenset([pair for pairs, _ in read for pair in pairs])
            fused = frozenset([name for _, names in read for name in names])
            ops = self._computations[text] = OpsOf(header[2], opcodes, fused)
        return ops


class _UnusualError(Exception):
    """A line is not of the form in which XLA prints an instruction."""


_Line = tuple[tuple[tuple[str, str], ...], tuple[str, ...]]
"""The ops of a line with its opcode, and the computations that it calls if it is a fusion."""


class _Lines(dict[str, _Line]):
    """What each line says, read when it is first met."""

    def __init__(self, without: Set[str]) -> None:
        super().__init__()
        self._without = without
        self._ops: dict[str, tuple[str, ...]] = {}

    def __missing__(self, line: str) -> _Line:
        opcode, scope, fused = _plain(line) or _odd(line)
        pairs: tuple[tuple[str, str], ...] = ()
        if opcode not in self._without:
            ops = self._ops.get(scope)
            if ops is None:
                last = (path[-1] for path in stamps(scope))
                ops = self._ops[scope] = tuple(op for op in last if op.startswith("s"))
            pairs = tuple((op, opcode) for op in ops)
        self[line] = read = pairs, fused
        return read


def _plain(line: str) -> tuple[str, str, tuple[str, ...]] | None:
    """Returns opcode, scope and fused computations of a line in its usual form."""
    head = _HEAD.match(line)
    if head is None:
        return None
    quote = line.find('"')
    scope, end = "", len(line)
    if quote >= 0 or "metadata=" in line:
        named = _NAMED.fullmatch(line, quote) if line.endswith(BEFORE_NAME, 0, quote) else None
        if named is None:
            return None
        scope, end = named[1], quote
    if line.find(" = ", head.end(), end) >= 0:
        return None  # perhaps a second instruction
    fused = _CALLS.findall(line, head.end(), end) if head[1] == "fusion" else ()
    return (head[1], scope, tuple(fused)) if len(fused) == (head[1] == "fusion") else None


def _odd(line: str) -> tuple[str, str, tuple[str, ...]]:
    """Returns the same of a line of any other form.

    Raises:
        _UnusualError: It is not one instruction.
    """
    parts = cut(line) if len(instructions(line)) == 1 else None
    if parts is None or not line.startswith(" "):
        raise _UnusualError
    named = attributes(parts.attributes)
    scope, _ = origin(named.get("metadata", ""), _NO_FRAMES)
    return parts.opcode, scope, called(named) if parts.opcode == "fusion" else ()
