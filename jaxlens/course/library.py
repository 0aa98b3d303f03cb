"""Finds puzzles by id: each is a file `puzzles/PART/pNN_M_words.py` with a `PUZZLE`."""

import re
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path

from jaxlens.course.puzzle import Puzzle, lesson_of
from jaxlens.errors import OptionError, PackageError, missing_package, nearest

_FOLDER = Path(__file__).parent / "puzzles"
_FILE = re.compile(r"p(\d+)_(\d+)_\w+\.py$")


@cache
def modules() -> dict[str, str]:
    """Returns the name of the module of every puzzle, by id, in the order of the course."""
    entries = []
    for path in _FOLDER.glob("*/p*.py"):
        match = _FILE.match(path.name)
        if match:
            number = int(match[1]), int(match[2])
            entries.append((number, f"jaxlens.course.puzzles.{path.parent.name}.{path.stem}"))
    return {f"{lesson}.{n}": name for (lesson, n), name in sorted(entries)}


def puzzle(id: str) -> Puzzle:
    """Returns a puzzle.

    Raises:
        OptionError: There is no puzzle of this id.
        PackageError: It needs JAX, which cannot be imported.
    """
    if id not in modules():
        raise OptionError(f"there is no puzzle {id!r}; {nearest(id, modules())}")
    try:
        entry: Puzzle = import_module(modules()[id]).PUZZLE
    except ImportError as error:
        raise missing_package(f"puzzle {id}", error) from None
    return entry


def puzzles() -> tuple[Puzzle, ...]:
    """Returns the puzzles in the order of the course: all, or those that do without JAX."""
    found = list[Puzzle]()
    for id in modules():
        with suppress(PackageError):
            found.append(puzzle(id))
    return tuple(found)


def ids_of(lesson: int) -> tuple[str, ...]:
    """Returns the ids of a lesson's puzzles, in order."""
    return tuple(id for id in modules() if lesson_of(id) == lesson)
