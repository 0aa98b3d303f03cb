"""Hints and solutions, each shown only when asked for."""

from collections import Counter

from jaxlens.course import progress_file
from jaxlens.course.library import puzzle

shown: Counter[str] = Counter()
"""Number of hints that this process has shown, by puzzle."""


class Text(str):
    """Text that shows as it is, without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def hint(id: str, number: int = 0) -> Text:
    """Returns the next hint of a puzzle, each more specific than the one before.

    Args:
        id: The puzzle, "7.1".
        number: 1 to 3 for a certain hint; 0 for the next.

    Raises:
        OptionError: There is no such puzzle.
    """
    hints = puzzle(id).hints
    if not number:
        shown[id] = min(shown[id] + 1, len(hints))
        number = shown[id]
    number = max(1, min(number, len(hints)))
    rest = "" if number < len(hints) else f" (the last; %reveal {id} shows a solution)"
    return Text(f"Hint {number} of {len(hints)}: {hints[number - 1]}{rest}")


def reveal(id: str) -> Text:
    """Returns a solution, and marks the puzzle as seen: it counts no more for the score.

    Raises:
        OptionError: There is no such puzzle.
    """
    solution = puzzle(id).solution.strip("\n")
    progress_file.record("revealed", id)
    return Text(solution)
