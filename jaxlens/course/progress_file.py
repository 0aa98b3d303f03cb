"""What a learner has done: one JSON file beside the lessons, ids only.

The file is read before it is written and the two are joined, so two kernels lose nothing. Where
the folder cannot be written, progress stays in memory, a line says so, and `code` gives what `join`
takes in the next session.
"""

import base64
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from jaxlens.errors import OptionError
from jaxlens.ir.saved.file import write_whole
from jaxlens.reading import JSON_MEMORY, parsed, read_file, read_json

FILE = ".jaxlens-progress.json"
VERSION = 3
KINDS = ("solved", "revealed", "predicted")
# Ids in files of version 1, when lessons did not ask puzzles in the order of their numbers.
_FIRST = dict(
    zip(
        "11.4 11.2 11.3 15.4 15.1 15.3 20.2 20.4 20.1 20.3 22.4 22.2 23.3 23.2 26.b 26.c".split(),
        "11.2 11.3 11.4 15.1 15.3 15.4 20.1 20.2 20.3 20.4 22.2 22.4 23.2 23.3 26.c 26.b".split(),
        strict=True,
    )
)
# Of version 2, when the first lesson and the fifth were not yet two each.
_LESSONS = {1: 1, 2: 3, 3: 5, 4: 6, 5: 4} | {number: number + 2 for number in range(6, 29)}
_MOVED = dict(
    zip(
        "1.b 1.c 1.d 1.e 5.d 5.e 5.3 5.4".split(),
        "2.a 1.b 1.c 1.d 7.a 7.b 7.1 7.2".split(),
        strict=True,
    )
)

_memory: dict[str, set[str]] = {kind: set() for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Record:
    """Ids of puzzles and predictions, by what the learner did with them.

    Attributes:
        solved: Puzzles with an answer that passed.
        revealed: Puzzles whose solution was shown, before or after.
        predicted: Predictions that got an answer.
    """

    solved: frozenset[str] = frozenset()
    revealed: frozenset[str] = frozenset()
    predicted: frozenset[str] = frozenset()

    @property
    def score(self) -> int:
        """Number of puzzles solved without the solution shown."""
        return len(self.solved - self.revealed)

    @property
    def code(self) -> str:
        """One line that holds all of this; `paste` takes it."""
        text = json.dumps(_plain(self), separators=(",", ":"))
        return base64.urlsafe_b64encode(zlib.compress(text.encode())).decode()


def current(folder: str | os.PathLike[str] = ".") -> Record:
    """Returns what was done so far, in this process and as the folder's file says."""
    stored = read(Path(folder) / FILE)
    return Record(**{kind: frozenset(_memory[kind] | set(stored[kind])) for kind in KINDS})


def record(kind: str, id: str, folder: str | os.PathLike[str] = ".") -> None:
    """Adds an id to the file; keeps it in memory only where the folder cannot be written."""
    _memory[kind].add(id)
    _write(Path(folder))


def join(code: str, folder: str | os.PathLike[str] = ".") -> None:
    """Joins what `Record.code` gave in another session.

    Raises:
        OptionError: The line is not one that `code` gave.
    """
    try:
        packed = base64.urlsafe_b64decode(code.strip())
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(packed, JSON_MEMORY)
        if not unpacker.eof:
            raise ValueError("it is cut, or stands for too much")
        stored = _known(parsed(text, JSON_MEMORY))
    except (ValueError, zlib.error):
        raise OptionError(
            "this is no line of jaxlens.course.progress().code; copy the whole line"
        ) from None
    for kind, ids in stored.items():
        _memory[kind].update(ids)
    _write(Path(folder))


def read(path: Path) -> dict[str, list[str]]:
    """Returns the ids in a file by kind; none where there is no readable file."""
    try:
        return _known(read_json(path))
    except (OSError, ValueError):
        return {kind: [] for kind in KINDS}


def is_damaged(path: Path) -> bool:
    """Whether a file holds something else than ids, or cannot be read."""
    try:
        data = read_file(path, JSON_MEMORY)
        return not isinstance(parsed(data or b"{}", JSON_MEMORY), dict)
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True


def _write(folder: Path) -> None:
    """Writes what is known into a folder, or prints why that is not possible.

    A damaged file is kept under another name: a person may read in it what is lost here.
    """
    path, copy = folder / FILE, folder / f"{FILE}.damaged"
    try:
        if is_damaged(path):
            path.replace(copy)
            print(f"{FILE} could not be read: it begins anew, and {copy.name} is what was there")
        write_whole(path, f"{json.dumps(_plain(current(folder)), indent=1)}\n".encode())
    except OSError as error:
        print(
            f"{FILE} could not be written here ({error.strerror}), so a restart forgets this: copy "
            "jaxlens.course.progress().code, and give it to jaxlens.course.paste afterwards"
        )


def _plain(state: Record) -> dict[str, object]:
    return {"version": VERSION, **{kind: _ordered(getattr(state, kind)) for kind in KINDS}}


def _ordered(ids: Iterable[str]) -> list[str]:
    return sorted(ids, key=lambda id: [(len(part), part) for part in id.split(".")])


def renumbered(id: str, version: object) -> str:
    """Returns the id that a puzzle or prediction of an earlier version of the course has now."""
    if version == 1:
        id = _FIRST.get(id, id)
    lesson, _, number = id.partition(".")
    if version not in (1, 2) or not lesson.isdecimal():
        return id
    return _MOVED.get(id, f"{_LESSONS.get(int(lesson), lesson)}.{number}")


def _known(stored: object) -> dict[str, list[str]]:
    """Returns the lists of ids in what a file holds; what is something else counts as empty."""
    entries = stored if isinstance(stored, Mapping) else {}
    version = entries.get("version", VERSION)
    return {
        kind: [renumbered(id, version) for id in entries.get(kind, ()) if isinstance(id, str)]
        if isinstance(entries.get(kind), list)
        else []
        for kind in KINDS
    }
