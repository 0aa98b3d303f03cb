"""Hints and solutions that were asked for, and what a learner answered.

The answers are kept in order, a line of JSON for each, beside the lessons on the learner's machine.
`share` makes the copy that `jaxlens course report` reads.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import monotonic

from jaxlens.course import progress_file
from jaxlens.course.library import puzzle
from jaxlens.course.puzzle import lesson_of
from jaxlens.errors import OptionError
from jaxlens.ir.lessons import BY_NUMBER
from jaxlens.reading import JSON_MEMORY, parsed, read_file

FILE = ".jaxlens-attempts.jsonl"
SHARED = "jaxlens-attempts.jsonl"
_LONGEST = 200  # characters of an answer
_ID = re.compile(r"\d{1,2}\.(?:\d|[a-z])")


shown: Counter[str] = Counter()
"""Number of hints that this process has shown, by puzzle."""

_begun: dict[str, float] = {}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One answer.

    Attributes:
        id: The puzzle or prediction.
        right: Whether it was right.
        answer: What was predicted; "" for a puzzle.
        hints: Number of hints of the puzzle that were shown before.
        seconds: Seconds since this process first showed the question or judged the puzzle.
    """

    id: str
    right: bool
    answer: str = ""
    hints: int = 0
    seconds: int = field(default=0, compare=False)


def begin(id: str) -> float:
    """Returns the monotonic time, in seconds, at which this process first met a question."""
    return _begun.setdefault(id, monotonic())


def note(attempt: Attempt, folder: str | os.PathLike[str] = ".") -> None:
    """Adds an answer to the folder's file, and to the progress what is solved or predicted.

    A folder that cannot be written keeps no attempts; that of the progress says so.
    """
    attempt = replace(attempt, seconds=round(monotonic() - begin(attempt.id)))
    is_prediction = attempt.id.rpartition(".")[2].isalpha()
    if attempt.right or is_prediction:
        progress_file.record("predicted" if is_prediction else "solved", attempt.id, folder)
    with suppress(OSError), (Path(folder) / FILE).open("a", encoding="utf-8") as file:
        file.write(f"{json.dumps({**asdict(attempt), 'version': progress_file.VERSION})}\n")


def read(path: Path) -> list[Attempt]:
    """Returns the answers in a file, without lines that hold something else."""
    attempts = []
    with suppress(OSError):
        for line in read_file(path, JSON_MEMORY).splitlines():
            with suppress(ValueError, TypeError, LookupError):
                entry = parsed(line, JSON_MEMORY)
                if _ID.fullmatch(entry["id"]):
                    answer = str(entry["answer"])[:_LONGEST]
                    right, hints = entry["right"] is True, int(entry["hints"])
                    seconds = int(entry.get("seconds", 0))
                    id = progress_file.renumbered(entry["id"], entry.get("version", 2))
                    attempts.append(Attempt(id, right, answer, hints, seconds))
    return attempts


def first_tries(attempts: Iterable[Attempt]) -> dict[str, Attempt]:
    """Returns the first answer to each puzzle and prediction."""
    firsts: dict[str, Attempt] = {}
    for attempt in attempts:
        firsts.setdefault(attempt.id, attempt)
    return firsts


def to_ask_again(lesson: int, ids: Collection[str], attempts: Iterable[Attempt]) -> list[str]:
    """Returns three predictions of earlier lessons: those that were answered wrong come first.

    After them come the last predictions of the lessons that this one needs, then of others; what
    was answered right more often comes later.

    Args:
        lesson: The number of the lesson that begins.
        ids: All predictions in the order of the course.
        attempts: The learner's answers.
    """
    of_lesson = {lesson_of(id): id for id in ids}  # the last one of each
    earlier = [a for a in attempts if lesson_of(a.id) < lesson]
    known = {a.id: a.right for a in earlier}
    right = Counter(a.id for a in earlier if a.right)
    wrong = [id for id, right in known.items() if not right and id in ids]
    near = sorted(BY_NUMBER[lesson].needs, reverse=True)
    others = [of_lesson[n] for n in (*near, *range(lesson - 1, 0, -1)) if n in of_lesson]
    return list(dict.fromkeys((*wrong, *sorted(others, key=right.__getitem__))))[:3]


def share(folder: str | os.PathLike[str] = ".") -> Path:
    """Copies what was answered in a folder into the file that a teacher's report reads.

    Raises:
        OptionError: Nothing was answered there, or the folder cannot be written.
    """
    path = Path(folder) / SHARED
    try:
        path.write_bytes((Path(folder) / FILE).read_bytes())
    except FileNotFoundError:
        raise OptionError(f"{folder} holds no answers yet; run a cell of a lesson first") from None
    except OSError as error:
        raise OptionError(f"{path} cannot be written ({error.strerror})") from None
    return path


class Text(str):
    """Text that shows as it is, without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def hint(id: str, number: int = 0) -> Text:
    """Returns the next hint of a puzzle, each more specific than the one before.

    Args:
        id: The puzzle, "9.1".
        number: 1 to 3 for a certain hint; 0 for the next.

    Raises:
        OptionError: There is no such puzzle.
    """
    hints = puzzle(id).hints
    begin(id)
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
