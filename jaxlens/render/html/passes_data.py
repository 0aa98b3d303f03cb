"""The steps through the passes as JSON-able data for `passes/scrubber.js`, which deflates well.

Most lines are equal from pass to pass, so `lines` has each once, with its atoms. The rows of a
step are three columns: the numbers of their lines, each as the difference from the one before; a
letter for each mark, capital for a removed row; and indices into `notes` from 1, 0 for none.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, get_args

from jaxlens.render.control_chars import visible
from jaxlens.render.document import Kind, Line, PassMark, PassStep, PassSteps
from jaxlens.render.fate_marks import mark
from jaxlens.render.html.payload import runs as atom_runs

MARKS: tuple[PassMark, ...] = get_args(PassMark)
_LETTERS = dict(zip(MARKS, "abcdefghij", strict=True))
_KINDS: Mapping[Kind, str] = {
    "op": "o",
    "type": "t",
    "literal": "l",
    "attr": "a",
    "comment": "c",
    "keyword": "k",
    "warn": "w",
    "fold": "f",
}


def data(block: PassSteps, hues: Mapping[str, int] | None = None) -> dict[str, Any]:
    """All that the viewer shows of the passes.

    Args:
        block: The steps.
        hues: The hue of each source line that has one, by its name.

    Returns:
        `marks`: word, sign and tint by letter; `lines`: text as pieces that begin with a letter
        for their kind, id (1: the first word behind keywords), place in `owners` from 1 (0:
        none), atoms as `payload.runs` writes them; `owners`: names of source lines with their
        hues (-1: none); `notes`; `steps`.
    """
    pool = _Pool(hues or {})
    written = [_step(each, pool) for each in block.steps]
    marks = {_LETTERS[name]: [name, mark(name).sign, mark(name).tint] for name in MARKS}
    return {"marks": marks, "note": visible(block.note), "steps": written, **pool.columns()}


def _step(each: PassStep, pool: "_Pool") -> dict[str, Any]:
    step: dict[str, Any] = {
        "index": each.index,
        "title": visible(each.title),
        "name": visible(each.name),
        "size": each.size,
        "did": visible(each.did),
        "for": visible(each.meaning),
    }
    if each.rows is not None:
        letters = (_LETTERS[row.mark] for row in each.rows)
        step["marks"] = "".join(
            letter.upper() if row.gone else letter
            for letter, row in zip(letters, each.rows, strict=True)
        )
        numbers = [pool.line(row.line, each.atoms) for row in each.rows]
        step["lines"] = [now - was for was, now in pairwise((0, *numbers))]
        step["notes"] = [pool.note(row.note) for row in each.rows]
    return step


class _Pool:
    """Lines, owners and notes, each once, with their numbers."""

    def __init__(self, hues: Mapping[str, int]) -> None:
        self._hues = hues
        self._lines: dict[tuple[Line, tuple[int, ...]], int] = {}
        self._owners: dict[str, int] = {}
        self._notes: dict[str, int] = {}

    def line(self, line: Line, atoms: Mapping[str, tuple[int, ...]]) -> int:
        key = line, atoms.get(line.id, ())
        return self._lines.setdefault(key, len(self._lines))

    def note(self, note: str) -> int:
        return self._notes.setdefault(note, len(self._notes) + 1) if note else 0

    def columns(self) -> dict[str, Any]:
        lines = [self._written(line, atoms) for line, atoms in self._lines]
        owners = [[visible(name), self._hues.get(name, -1)] for name in self._owners]
        return {"lines": lines, "owners": owners, "notes": list(map(visible, self._notes))}

    def _written(self, line: Line, atoms: tuple[int, ...]) -> list[Any]:
        owner = self._owners.setdefault(line.line, len(self._owners)) + 1 if line.line else 0
        pieces, id = _pieces(line), visible(line.id)
        words = next((piece[1:] for piece in pieces if piece[0] != "k"), "")
        first = bool(id) and words.split(" ")[0] == id
        return [pieces, 1 if first else id, owner, *atom_runs(atoms)]


def _pieces(line: Line) -> list[str]:
    """Runs of one kind, each behind the kind's letter ("-": plain)."""
    runs: list[str] = []
    for piece in line.pieces:
        letter = _KINDS.get(piece.kind, "-")
        if runs and runs[-1][0] == letter:
            runs[-1] += visible(piece.text)
        elif piece.text:
            runs.append(letter + visible(piece.text))
    return runs
