"""Reads from the texts of many dumps only which op each instruction came from, and its opcode.

Few lines of a compile's dumps are distinct. Each distinct line is read once, and a dump is an array
of their numbers. Text that is not laid out as XLA prints it is left to the caller.
"""

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jaxlens.ir.hlo.frames import Frames, origin
from jaxlens.ir.hlo.lazy_module import BEFORE_NAME, HEADER
from jaxlens.ir.hlo.text import attributes, called, cut, instructions
from jaxlens.ir.stamps import stamps
from jaxlens.ir.text_store import Texts

_LINE = re.compile(
    r"""^(?:\ +(?:ROOT\ )?%?[^\s=()"{}\[\],]+\ =\                            # name
        (?:[a-z][a-z0-9]*\[[^\]"\n]*\](?:\{[^{}"\n]*\})?                     # array
          |\((?:[^()"\n]++|\([^()"\n]*\))*\))\                               # or tuple
        ([a-z][\w\-]*)\(([^"\n]*+)                                           # opcode
        (?:"([^"\\\n]*+(?:\\'[^"\\\n]*+)*+)"(?:\ stack_frame_id=\d{1,9})?\}   # scope
          (?:,\ backend_config=\{[^=\n]*\})?)?
      |(.*))$""",
    re.VERBOSE | re.MULTILINE,
)
_CALLS = re.compile(r", calls=%?([\w.\-]+)")
_NO_FRAMES = Frames(None)
_BLANK, _INSTRUCTION, _FIRST, _LAST, _UNUSUAL = range(5)
# How many computations are open after a line of each kind.
_OPEN = np.array([0, 1, 1, 0, -1])


@dataclass(frozen=True, slots=True)
class Ops:
    """The ops of one program.

    Attributes:
        opcodes: Each op, with the opcode of an instruction that came from it.
        fused: The ops that have an instruction in a fusion.
    """

    opcodes: frozenset[tuple[str, str]]
    fused: frozenset[str]


class OpLines:
    """Reads the dumps of one compile."""

    def __init__(self, texts: Texts, without: Set[str]) -> None:
        """Reads each distinct line.

        Args:
            texts: The dumps.
            without: Opcodes that are left out.
        """
        self._texts = texts
        self._without = without
        self._numbers: dict[tuple[str, str], int] = {}  # of ops with opcodes
        self._names: dict[str, int] = {}  # of computations
        self._kinds = np.full(len(texts.lines), _INSTRUCTION, np.int8)
        self._computations = np.zeros(len(texts.lines), int)  # of first lines
        known: dict[tuple[str, str], tuple[int, ...]] = {}
        pairs: list[int] = []  # a line, and the number of an op with its opcode
        fusions: list[int] = []  # a line, and the number of a computation that it calls
        found = _LINE.findall("\n".join(texts.lines))
        for line, (opcode, said, scope, other) in enumerate(found):
            fused: Sequence[str] = _CALLS.findall(said) if opcode == "fusion" else ()
            named = said.endswith(BEFORE_NAME)
            if (
                not opcode
                or len(fused) != (opcode == "fusion")
                or " = " in said  # perhaps a second instruction
                or (not named and (scope or "metadata=" in said))
            ):
                text = other or texts.lines[line]
                self._kinds[line], opcode, scope, fused = self._odd(line, text)
            numbers = known.get((opcode, scope))
            if numbers is None:
                numbers = known[opcode, scope] = self._numbered(opcode, scope)
            for number in numbers:
                pairs += line, number
            for name in fused:
                fusions += line, self._names.setdefault(name, len(self._names))
        self._each = tuple(self._numbers)
        self._line_of_pair, self._number_of_pair = np.array(pairs, int).reshape(-1, 2).T
        self._line_of_fusion, self._name_of_fusion = np.array(fusions, int).reshape(-1, 2).T

    def read(self, index: int) -> Ops | None:
        """Returns the ops of a dump; None if the text has an unusual form."""
        rows = np.frombuffer(self._texts.rows[index], np.uint32)
        firsts = np.flatnonzero(self._kinds[rows] == _FIRST)
        rows = rows[firsts[0] :] if len(firsts) else rows[:0]
        kinds = self._kinds[rows]
        begun = np.cumsum(kinds == _FIRST)
        still = begun - np.cumsum(kinds == _LAST)
        if not len(rows) or still[-1] or (still != _OPEN[kinds]).any():
            return None
        present = _marked(rows, len(self._kinds))
        called = self._name_of_fusion[present[self._line_of_fusion]]
        fused = _marked(called, len(self._names))[self._computations[rows[kinds == _FIRST]]]
        inside = _marked(rows[fused[begun - 1]], len(self._kinds))
        return Ops(frozenset(self._of(present)), frozenset([op for op, _ in self._of(inside)]))

    def _of(self, lines: NDArray[np.bool_]) -> list[tuple[str, str]]:
        """Returns the ops and opcodes of lines."""
        numbers = _marked(self._number_of_pair[lines[self._line_of_pair]], len(self._each))
        return [self._each[number] for number in np.flatnonzero(numbers).tolist()]

    def _odd(self, line: int, text: str) -> tuple[int, str, str, Sequence[str]]:
        """Returns kind, opcode, scope and fused computations of a line of any other form."""
        kind, parts = _UNUSUAL, None
        if not text:
            kind = _BLANK
        elif text.startswith("}"):
            kind = _LAST
        elif header := HEADER.fullmatch(text):
            kind = _FIRST
            self._computations[line] = self._names.setdefault(header[2], len(self._names))
        elif text.startswith(" ") and len(instructions(text)) == 1:
            parts = cut(text)
        if parts is None:
            return kind, "", "", ()
        said = attributes(parts.attributes)
        scope, _ = origin(said.get("metadata", ""), _NO_FRAMES)
        fused = called(said) if parts.opcode == "fusion" else ()
        return _INSTRUCTION, parts.opcode, scope, fused

    def _numbered(self, opcode: str, scope: str) -> tuple[int, ...]:
        """Returns the numbers of the ops in a scope, with that opcode."""
        if opcode in self._without:
            return ()
        last = (path[-1] for path in stamps(scope))
        numbers = self._numbers
        return tuple(
            numbers.setdefault((op, opcode), len(numbers)) for op in last if op.startswith("s")
        )


def _marked(numbers: NDArray[np.integer], count: int) -> NDArray[np.bool_]:
    """Returns for each number up to a count whether it is among the numbers."""
    marks = np.zeros(count, bool)
    marks[numbers] = True
    return marks
