"""The lessons: parts, order, what each needs, and how long it takes a reader.

THE TABLE is `lessons.tsv`, a lesson a line.
"""

import importlib.metadata
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jaxlens.reading import table_rows

PARTS = (
    "Tracing",
    "Compile once",
    "Transforms",
    "Loops",
    "What XLA does",
    "What it costs",
    "Running it",
)


@dataclass(frozen=True, slots=True)
class Lesson:
    """One lesson.

    Attributes:
        number: Its place in the course, from 1.
        part: Index into `PARTS`.
        title: Its heading.
        question: The one question that it answers.
        minutes: Of a reader's time, puzzles included.
        extra: Minutes of what the lesson calls extra, beside `minutes`.
        needs: Lessons that it builds on.
    """

    number: int
    part: int
    title: str
    question: str
    minutes: int
    needs: tuple[int, ...] = ()
    extra: int = 0

    @property
    def file(self) -> str:
        """Name of its notebook, without ending."""
        letters = "".join(c if c.isalnum() else " " for c in self.title.lower())
        return f"{self.number:02}_{'_'.join(letters.split())}"


def _lesson(row: list[str]) -> Lesson:
    number, part, title, question, minutes, extra, needs = row
    before = tuple(map(int, needs.split()))
    return Lesson(int(number), int(part), title, question, int(minutes), before, int(extra))


LESSONS = tuple(map(_lesson, table_rows("jaxlens.ir", "lessons.tsv")[1:]))
BY_NUMBER = {lesson.number: lesson for lesson in LESSONS}


def reference(number: int, folder: Path | None = None) -> tuple[str, str]:
    """Returns how a lesson is named, and where a click opens it.

    Args:
        number: The lesson.
        folder: Where its notebook may lie; the current folder, in which Jupyter runs a notebook,
            for None.

    Returns:
        `lesson 20, Read HLO`, and the notebook's file name if the folder holds it, else the
        address of the course that the project's metadata names, else "" (the name then says how
        to get the course).
    """
    lesson = BY_NUMBER[number]
    name = f"lesson {number}, {lesson.title}"
    file = f"{lesson.file}.ipynb"
    try:
        here = ((folder or Path()) / file).is_file()
    except OSError:  # the current folder is gone
        here = False
    address = file if here else _course_address()
    return (name, address) if address else (f"{name} (`jaxlens lab`)", "")


@cache
def _course_address() -> str:
    """Returns the address of the course in the project's metadata; "" for none."""
    try:
        urls = importlib.metadata.metadata("jaxlens").get_all("Project-URL") or []
    except importlib.metadata.PackageNotFoundError:  # a checkout that is not installed
        return ""
    named = (url.partition(",") for url in urls)
    return next((there.strip() for name, _, there in named if name.lower() == "course"), "")
